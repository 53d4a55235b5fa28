"""What only a person can say of each kind of rule: an example, and when to use it."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.labels import Scheme


@dataclass(frozen=True)
class Kind:
    """A kind of rule with the example that its page shows."""

    name: str  # of the page, and of the function in bridle.rules if there is one
    call: str  # in Python
    sentence: str  # the same in a .rules file
    use: str
    labels: tuple[str, ...] = ("O", "A", "B")
    scheme: Scheme | None = "IO"
    heading: str = ""
    summary: str = ""  # what the page opens with, if the docstring speaks of something else

    @property
    def title(self) -> str:
        return self.heading or f"`{self.name}`"


KINDS = (
    Kind(
        "forbid",
        'forbid("A", at=[0, -1])',
        "forbid A at 0, -1",
        "A label that cannot stand in some places (the first token is never a DATE), or, without `at`, one that this "
        "kind of text does not have at all. It takes labels out; `allow` and `fix` say what is left.",
    ),
    Kind(
        "allow",
        'allow(["O", "B"], given("spot"))',
        "allow O, B at given spot",
        "Something outside the model knows what a token can be: a dictionary, a gazetteer, an earlier stage. Pass the "
        "positions with each sequence; all other labels are impossible there.",
    ),
    Kind(
        "fix",
        r'fix("A", tokens(r"\d{5}"))',
        r"fix A at tokens /\d{5}/",
        "The text of a token decides its label: five digits are a ZIP code, `@` is in an address. Also for labels that "
        "a person has set by hand and wants to keep.",
    ),
    Kind(
        "label_at",
        'label_at(given("verb"), "O")',
        "label at given verb is O",
        "The same as `fix` when it stands alone; take it as an atom in formulas, such as "
        '`label_at(0, "A") >> present("B")`.',
    ),
    Kind(
        "forbid_transition",
        'forbid_transition("A", "B")',
        "forbid A then B",
        "Two labels never touch: after a NAME no TITLE without something between them. For pairs that a model has "
        "seldom seen and that are plainly wrong.",
    ),
    Kind(
        "well_formed",
        "well_formed()",
        "well formed",
        "Scores come from a model that knows nothing of BIO, BIOES or BMES (each token by itself, say), and its "
        "labels must make segments. It costs nothing, so there is no reason to leave it out.",
        labels=("O", "B-X", "I-X"),
        scheme="BIO",
    ),
    Kind(
        "at_most",
        'at_most(1, of="A")',
        "at most 1 segment of A",
        "A record has one TITLE, a sentence at most two objects. With several names the limit is on all of them "
        'together; `count="tokens"` counts tokens instead of segments.',
    ),
    Kind(
        "at_least",
        'at_least(2, of=["A", "B"], count="tokens")',
        "at least 2 tokens of A, B",
        "Something must be there, more than once or in some size: a reference has two tokens of AUTHOR or EDITOR. For "
        "a single occurrence `present` says the same in fewer words.",
    ),
    Kind(
        "exactly",
        'exactly(1, of="A")',
        "exactly 1 segment of A",
        "Both limits at once: a form has one NAME, a clause has one VERB.",
    ),
    Kind(
        "no_duplicates",
        'no_duplicates(of=["A", "B"])',
        "no duplicates of A, B",
        "Each of several labels at most once: the roles of a verb, the fields of a record. It is `at_most(1, ...)` for "
        "each name by itself.",
    ),
    Kind(
        "length",
        'length(of="A", at_least=2, at_most=3)',
        "length of A at least 2 at most 3",
        "Segments have a known size: an initial is one token, a telephone number two to four. Either limit may be "
        "left out.",
    ),
    Kind(
        "present",
        'present("A")',
        "present A",
        "The label must occur: every address has a PLACE. It is also the atom with which formulas speak of presence.",
    ),
    Kind(
        "if_present",
        'if_present("A", then="B")',
        "if A then B",
        "One field makes no sense without another: pages without a journal, a reference to a role without the role. "
        "Where they stand does not matter.",
    ),
    Kind(
        "same_label",
        'same_label(given("phrases"))',
        "same label over given phrases",
        "A parser or a person has found phrases, and a phrase plays one role or none. Spans are pairs (start, end), "
        "end not included; they come with the sequence or stand in the rule.",
        labels=("O", "A"),
    ),
    Kind(
        "immediately_followed_by",
        'immediately_followed_by("A", "B")',
        "A next to B",
        "One label always has another just after it: after every UNIT its NUMBER. It speaks of tokens: a segment of "
        "two tokens breaks it, because just after its first token stands its second. For segments of any length write "
        '`immediately_followed_by("A", ["A", "B"])`, in a file `A next to A, B`. Mined from data as *adjacency*.',
    ),
    Kind(
        "followed_by",
        'followed_by("A", "B")',
        "A followed by B",
        "Something later must answer: after an opening there is a closing, after AUTHOR a TITLE, no matter how far. "
        "Mined from data as *precedence*.",
    ),
    Kind(
        "around",
        'around(tokens("saw"), left="A", right="B")',
        "around tokens /saw/ from A to B",
        "A delimiter separates two fields: what stands before the colon is the PLACE, what follows the PUBLISHER. "
        "Mined from data as *state change*.",
    ),
    Kind(
        "starts_with",
        'starts_with("A")',
        "starts with A",
        "Texts that begin in one way: a reference with its AUTHOR, an address with its NUMBER. Soft, if most do.",
    ),
    Kind(
        "ends_with",
        'ends_with("B")',
        "ends with B",
        "Texts that end in one way: a reference with its DATE, a sentence with its full stop.",
    ),
    Kind(
        "before",
        'before("A", "B")',
        "A before B",
        "An order of fields: no TITLE before an AUTHOR. Neither has to be there. Often soft: an order is a habit.",
    ),
    Kind(
        "matches",
        'matches("O* A+ (O|B)*")',
        'matches "O* A+ (O|B)*"',
        "The shape of the whole labelling is known, or a condition is easier to write as a regular expression over "
        "labels than as several rules. Write `.` for any label, `[^A B]` for any but these, `A{2,3}` for counts.",
    ),
    Kind(
        "formulas",
        'present("A") >> label_at(0, "B")',
        "(present A) implies (label at 0 is B)",
        "Any other condition: combine rules by `&` (and), `|` (or), `~` (not), `>>` (implies) and `a.iff(b)`. Every "
        "hard rule may be a part, not only `present` and `label_at`. A formula is broken once, or not at all; where "
        "violations should be counted, write several rules.",
        heading="Boolean formulas",
        summary="Rules joined by *and*, *or*, *not*, *implies* and *if and only if*. The example is an implication: if "
        "the first part holds, so does the second.",
    ),
    Kind(
        "soft",
        'immediately_followed_by("A", "B").soft(1, per="violation")',
        "A next to B  [penalty 1.0 per violation]",
        "The rule is usual but not certain. A penalty is subtracted from the score: the labelling may break the rule "
        'where the scores are worth more than that. `per="sequence"` (the default) charges once for a sequence that '
        'breaks it, `per="violation"` each time. Penalties can be learned: '
        "[learn rules](../../tutorials/learn_rules.md).",
        heading="Soft rules",
    ),
)

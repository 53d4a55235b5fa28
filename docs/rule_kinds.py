"""The hand-written part of the page of each kind of rule: an example, and when to use it."""

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
        "A label cannot occur in some places: the first token is never a DATE. Without `at`, the label cannot "
        "occur at all. `forbid` excludes labels; use `allow` and `fix` to say which labels remain.",
    ),
    Kind(
        "allow",
        'allow(["O", "B"], given("spot"))',
        "allow O, B at given spot",
        "Something outside the model knows which labels a token can have: a dictionary, a gazetteer, an earlier "
        "stage. Pass the positions with each sequence; all other labels are impossible there.",
    ),
    Kind(
        "fix",
        r'fix("A", tokens(r"\d{5}"))',
        r"fix A at tokens /\d{5}/",
        "The text of a token determines its label: five digits are a ZIP code, `@` is part of an address. Also "
        "use it for labels that a person has set by hand and wants to keep.",
    ),
    Kind(
        "label_at",
        'label_at(given("verb"), "O")',
        "label at given verb is O",
        'Alone, it means the same as `fix`. Use it inside formulas, such as `label_at(0, "A") >> present("B")`.',
    ),
    Kind(
        "forbid_transition",
        'forbid_transition("A", "B")',
        "forbid A then B",
        "Two labels are never adjacent: a TITLE never directly follows a NAME. Use it for pairs that a model has "
        "rarely seen and that are clearly wrong.",
    ),
    Kind(
        "well_formed",
        "well_formed()",
        "well formed",
        "The scores come from a model that does not know BIO, BIOES or BMES (for example, because it scores each "
        "token separately), and its labels must form segments. The rule costs nothing at run time.",
        labels=("O", "B-X", "I-X"),
        scheme="BIO",
    ),
    Kind(
        "at_most",
        'at_most(1, of="A")',
        "at most 1 segment of A",
        "A record has one TITLE, a sentence has at most two objects. With several names, the limit applies to all "
        'of them together. `count="tokens"` counts tokens instead of segments. In [span '
        "selection](../../integrations/spans.md#what-rules-mean), each chosen span is one segment of its label, but a "
        "segment of `O` is a whole run of tokens that no chosen span touches: `at most 1 segment of O` allows any "
        "number of them in a row.",
    ),
    Kind(
        "at_least",
        'at_least(2, of=["A", "B"], count="tokens")',
        "at least 2 tokens of A, B",
        "Something must occur more than once, or with a minimum size: a reference has two tokens of AUTHOR or "
        "EDITOR. If one occurrence is enough, use `present`, which is shorter.",
    ),
    Kind(
        "exactly",
        'exactly(1, of="A")',
        "exactly 1 segment of A",
        "It combines both limits: a form has one NAME, a clause has one VERB.",
    ),
    Kind(
        "no_duplicates",
        'no_duplicates(of=["A", "B"])',
        "no duplicates of A, B",
        "Each of several labels occurs at most once: the roles of a verb, the fields of a record. It is the same "
        "as `at_most(1, ...)` for each name separately.",
    ),
    Kind(
        "length",
        'length(of="A", at_least=2, at_most=3)',
        "length of A at least 2 at most 3",
        "Segments have a known size: an initial is one token, a telephone number two to four. You can leave out "
        "either limit.",
    ),
    Kind(
        "present",
        'present("A")',
        "present A",
        "The label must occur: every address has a PLACE. Formulas also use it to refer to presence.",
    ),
    Kind(
        "if_present",
        'if_present("A", then="B")',
        "if A then B",
        "One field makes no sense without another: pages without a journal, a reference to a role without the "
        "role. Their order does not matter.",
    ),
    Kind(
        "same_label",
        'same_label(given("phrases"))',
        "same label over given phrases",
        "A parser or a person has found phrases, and a phrase has one role or none. Spans are pairs (start, end), "
        "end not included. They come with the sequence or are part of the rule. Spans may overlap: each change between "
        "two neighbouring tokens counts once, however many spans it lies in. With the spans (0, 3) and (1, 4), "
        "`A A O O` has one violation, not two.",
        labels=("O", "A"),
    ),
    Kind(
        "same_label_for_equal",
        "same_label_for_equal()",
        "same label for equal tokens",
        "A name means one thing in one text: if `Paris` is a person in one place, it is a person everywhere. Usually "
        "make it soft and restrict it to content words, because words such as *of* repeat everywhere. Labels of one "
        "segment type count as equal, such as `B-PER` and `I-PER`. With `ignoring case` at the end, `Apple` and "
        "`APPLE` are equal. With the name of a column and an expression, its values are compared: `same label for "
        "equal lemma /.*/`, or, with ids of coreference, `same label for equal entity /[^_].*/`.",
    ),
    Kind(
        "in_document",
        'in_document(at_most(1, of="A"))',
        "in the document: at most 1 segment of A",
        "Something is true of a whole document and not of each sentence: one invoice total, the abstract before the "
        "references, one type per name. It takes rules about presence, counts and order, and `same_label_for_equal`. "
        "Sequences that are decoded alone are documents of one sentence; see [documents](../../documents.md).",
    ),
    Kind(
        "immediately_followed_by",
        'immediately_followed_by("A", "B")',
        "A next to B",
        "One label always has another directly after it: after every UNIT comes its NUMBER. The rule is about "
        "tokens: a segment of two tokens breaks it, because its first token is followed by its second. For "
        'segments of any length, write `immediately_followed_by("A", ["A", "B"])`, or `A next to A, B` in a file. '
        "Rules of this kind can be mined from data as *adjacency*.",
    ),
    Kind(
        "followed_by",
        'followed_by("A", "B")',
        "A followed by B",
        "Something must follow later, at any distance: a closing after an opening, a TITLE after an AUTHOR. Rules "
        "of this kind can be mined from data as *precedence*.",
    ),
    Kind(
        "around",
        'around(tokens("saw"), left="A", right="B")',
        "around tokens /saw/ from A to B",
        "A delimiter separates two fields: the PLACE comes before the colon, the PUBLISHER after it. Rules of "
        "this kind can be mined from data as *state change*.",
    ),
    Kind(
        "starts_with",
        'starts_with("A")',
        "starts with A",
        "All texts begin in the same way: a reference with its AUTHOR, an address with its NUMBER. Make it soft "
        "if only most of them do.",
    ),
    Kind(
        "ends_with",
        'ends_with("B")',
        "ends with B",
        "All texts end in the same way: a reference with its DATE, a sentence with its full stop.",
    ),
    Kind(
        "before",
        'before("A", "B")',
        "A before B",
        "The fields have an order: no TITLE comes before any AUTHOR. Neither of them has to occur. An order is "
        "often a habit and not a law, so consider making it soft. Every A comes before every B; if you mean only the "
        "first ones, write `first_before`.",
    ),
    Kind(
        "first_before",
        'first_before("A", "B")',
        "first A before first B",
        "The fields have an order but can come back: the first START comes before the first END, and more of both "
        "can follow. A sequence with only one of the two obeys the rule.",
    ),
    Kind(
        "matches",
        'matches("O* A+ (O|B)*")',
        'matches "O* A+ (O|B)*"',
        "You know the shape of the whole labelling, or a condition is easier to write as a regular expression "
        "over labels than as several rules. Write `.` for any label, `[^A B]` for any label but these, `A{2,3}` "
        "for counts.",
    ),
    Kind(
        "automaton",
        'automaton("0 0 ?; 0 1 B; 1 1 O; 0; 1")',
        'automaton "0 0 ?; 0 1 B; 1 1 O; 0; 1"',
        "You have an automaton from another tool, or draw one more easily than an expression. Each part is an arc, "
        "`from to label`, or a final state; `?` is any label that no other arc of the state names. The first arc "
        'begins in the start state. `automaton from "arcs.txt"` reads a file in the text format of acceptors of '
        "OpenFst, one arc or final state per line; the path starts in the folder of the `.rules` file. An integer "
        "behind an arc or a final state is its weight: that many violations, which a soft rule charges one by one with "
        "`per violation` and a hard rule forbids. Other weights are refused: round them, and put the price of one into "
        "the penalty.",
    ),
    Kind(
        "formulas",
        'present("A") >> label_at(0, "B")',
        "(present A) implies (label at 0 is B)",
        "For any other condition, combine rules with `&` (and), `|` (or), `~` (not), `>>` (implies) and "
        "`a.iff(b)`. Every hard rule can be a part, not only `present` and `label_at`. A formula is broken once "
        "or not at all; if violations should be counted, write several rules.",
        heading="Boolean formulas",
        summary="Rules joined by *and*, *or*, *not*, *implies* and *if and only if*. The example is an implication: if "
        "the first part holds, the second must hold.",
    ),
    Kind(
        "soft",
        'immediately_followed_by("A", "B").soft(1, per="violation")',
        "A next to B  [penalty 1.0 per violation]",
        "The rule is usually but not always true. The penalty is subtracted from the score, so the best labelling "
        'breaks the rule where the scores outweigh the penalty. `per="sequence"` (the default) charges once for a '
        'sequence that breaks the rule, `per="violation"` each time. Penalties can be learned: [learn '
        "rules](../../tutorials/learn_rules.md).",
        heading="Soft rules",
    ),
)

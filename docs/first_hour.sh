#!/usr/bin/env bash
# The first hour with Bridle: from a labelled file to a tagger that obeys rules.
#
#     bash docs/first_hour.sh [FOLDER]
#
# It needs `bridle` on the PATH (pip install .) and takes less than a minute. Everything is written to FOLDER; without one,
# to a new temporary folder.
set -euo pipefail
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"

# ---- 1. Labelled files -----------------------------------------------------------------------------------------------
# One token and its label per line, with an empty line between sequences. Put your own files here. These have references
# that come with Bridle: 80 in two citation styles to learn from, and 120 to other works in a style that nobody has
# labelled before, as data in production is.
python - <<'PYTHON'
from bridle.data import references, write

known, others = references.split(40)  # works
write("references.conll", references.references("acm", "lncs", of=known), "conll")
write("new.conll", references.references("apa", of=others, count=120), "conll")
PYTHON
head -n 3 references.conll

# ---- 2. Parts for training, for tuning, and for a last look ----------------------------------------------------------
bridle split new.conll -o new --into dev=0.4,test=0.6

# ---- 3. Train --------------------------------------------------------------------------------------------------------
# Features are chosen by the labels, the regularisation by cross-validation.
bridle train references.conll -o refs.bridle
bridle info refs.bridle --top 3 --label TITLE
bridle eval new/test.conll --model refs.bridle

# ---- 4. Write rules --------------------------------------------------------------------------------------------------
cat > my.rules <<'RULES'
no duplicates of AUTHOR, TITLE, DATE             # a field is in one piece
present TITLE
first AUTHOR before first TITLE                  [penalty 2]
fix DATE at tokens /(19|20)\d\d/                 [penalty 2]
fix AUTHOR at first token
fix PAGES at tokens /\d+(-+|–)\d+/              [penalty 2]
RULES
bridle rules check my.rules --model refs.bridle
bridle rules test my.rules new/dev.conll --model refs.bridle

# ---- 5. Find more rules in the data, and tune all of them together ----------------------------------------------------
# `learn` finds rules, `tune` the right penalty for each. Rules that say similar things share a penalty only if they are tuned
# together, so pass all files to `tune` and use the one that it writes. Both end with exit code 1 if no rules help.
bridle learn new/dev.conll --model refs.bridle -o learned.rules || test $? = 1
bridle rules tune my.rules learned.rules --model refs.bridle --data new/dev.conll -o joint.rules || test $? = 1

# ---- 6. Tag, and explain ---------------------------------------------------------------------------------------------
bridle tag refs.bridle new/test.conll --rules joint.rules --to jsonl -o tagged.jsonl
bridle explain refs.bridle new/test.conll --rules joint.rules --sequence 1

# ---- 7. Evaluate what was written ------------------------------------------------------------------------------------
bridle eval new/test.conll tagged.jsonl --rules my.rules --html report.html
echo "report: $folder/report.html"

// Many rules that interact: dual decomposition over groups of rules, agreement on edges, then layered search.
//   The scores of edges are shared out between the groups, each of which folds its rules into its share:
//     optimum  <=  sum over g of  max over y of  sum over t of theta_g[t][y(t-1)][y(t)]  -  cost_g(y)
//   The bound is lowest where the groups agree on what every edge is worth. One step makes them agree at one position,
//     M_g[i][j] = theta_g[t][i][j] + max over q of F_g[t-1][q][i] + X_g[t][q][j],    theta_g[t] += mean over g of M_g - M_g
//   and never raises the bound. What the groups say can still follow, added up, is the estimate of a search, layer by layer.
//   Sweeps over all positions (shares.h) and searches (layered.h) take turns: the search is made wider when sweeps no longer
//   help. A labelling that is found is improved segment by segment (segments.h): the better it is, the more can be dropped.
//   Of very many rules only the active ones are grouped. What a labelling breaks comes in as groups with no share as yet.
//
//   n positions (t)    m labels (i, then j)    G groups (g)    Q states of a group (q)
//   F_g[t][q][j]: the best beginning that reads j at t and is then in state q    B_g: the best that can follow
//   X_g[t][q][j] = B_g[t][next(q, j)][j] - cost(q, j)
// Shares are in single precision: how far they have moved from the scores is measured and put right with each sweep, and what
// sums can have lost is added.
#pragma once

#include "relaxation.h"

namespace bridle {

// Looks at all rules at once, or at the active ones.
// True: the optimum is proved. False: it gave up; the incumbent is no worse than before.
bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent);

}  // namespace bridle

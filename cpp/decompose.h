// Many rules that interact: dual decomposition over groups of rules, agreement on edges, then layered search.
//   The edge scores are shared out between the groups, each of which folds its rules into its share:
//     optimum  <=  sum over g of  max over y of  sum over t of theta_g[t][y(t-1)][y(t)]  -  cost_g(y)
//   Where all groups agree on what an edge is worth, the bound is lowest: each step makes them agree at one position,
//     M_g[i][j] = theta_g[t][i][j] + max over q of F_g[t-1][q][i] + X_g[t][q][j],   theta_g[t] += mean over g of M_g - M_g
//   which never raises the bound. What the best completions of the groups add up to is an estimate for a search, layer by layer.
//
//   n positions (t)    m labels (i, then j)    G groups (g)    Q states of a group (q)
//   F_g[t][q][j]: the best beginning that reads j at t and is then in state q    B_g: the best that can follow
//   X_g[t][q][j] = B_g[t][next(q, j)][j] - cost(q, j)
#pragma once

#include <vector>

#include "relaxation.h"

namespace bridle {

// True: the optimum is proved. False: a limit of its own came first; bound and incumbent are better than before.
bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent);

}  // namespace bridle

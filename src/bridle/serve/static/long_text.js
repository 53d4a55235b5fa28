/** Texts that are too long to be explained: labels without and with rules, from two calls of /tag. */

import { api } from "./api.js";

/**
 * Is this more than the server explains? Tokens of a text are estimated; the server has the last word.
 *
 * @param {any} request body of /explain
 * @param {any} limits of the model
 * @returns {boolean}
 */
export function isTooLong(request, limits) {
  const most = limits?.explain_tokens ?? Infinity;
  if (!request.text) return tokensOf(request).length > most;
  return request.text.length > most && (request.text.match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu)?.length ?? 0) > most;
}

/**
 * The answer of /explain; for a long text what there is of it, with `partial`: no effects, alternatives, probabilities.
 *
 * @param {any} request body of /explain
 * @param {any} limits of the model
 * @returns {Promise<any>}
 */
export async function explainOrLabel(request, limits) {
  if (isTooLong(request, limits)) return labelsOnly(request);
  return api.explain(request).catch((error) => {
    if (error.code === "explain_tokens") return labelsOnly(request);
    throw error;
  });
}

/** @param {any} request @returns {string[]} the tokens of a question that has no text; the first column holds them */
function tokensOf(request) {
  return request.tokens ?? Object.values(request.columns)[0];
}

/** @param {any} request @returns {Promise<any>} */
async function labelsOnly(request) {
  const input = request.columns ? { columns: [request.columns] } : request.tokens ? { tokens: [request.tokens] } : { texts: [request.text], tokens_out: true };
  const [without, ruled] = await Promise.all([
    api.tag({ ...input, rule_set: "none" }), api.tag({ ...input, rules: request.rules }),
  ]);
  const plain = without.results[0], best = ruled.results[0];
  const tokens = best.tokens ?? tokensOf(request);
  return {
    tokens, offsets: best.offsets ?? null, plain, best: { ...best, optimal: best.status === "optimal" }, partial: true,
    changed: tokens.flatMap((/** @type {string} */ _, /** @type {number} */ t) => (plain.labels[t] === best.labels[t] ? [] : [t])),
    cost: plain.score - best.score, effects: [], clash: [], alternatives: [], probabilities: { plain: null, best: null },
    alternatives_missing: "the text is too long: longer ones get labels only",
  };
}

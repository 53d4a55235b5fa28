"""Models inside scikit-learn: its own checks of estimators, as far as they apply, and its tools."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

from bridle import rules as r
from bridle.errors import FeatureError, LabelError, ModelError
from bridle.models import CRF, LocalTagger, Tagger
from bridle.report import segment_f1, sequence_accuracy, token_accuracy
from learning import noisy

RULE = "at most 1 segment of D"
WORD = ["word[0]", "label[-1]"]
FAST = {"c2": 0.1, "iterations": 10}

# ---- scikit-learn's own checks --------------------------------------------------------------------------------------

# Each check of sklearn.utils.estimator_checks is run as it is, on rows that are sequences of one token, unless it is in
# one of two tables. HERE: done below on sequences, because arrays and their errors are not those of sequences (where a
# check makes sense for both, it is also run as it is: ALSO). NOT: it does not apply, for this reason.
HERE: dict[str, Callable[[Any], None]] = {}
ALSO: set[str] = set()
NOT: dict[str, str] = {
    name: reason
    for reason, names in {
        "it runs the others": "check_estimator",
        "fit takes no sample_weight": """check_all_zero_sample_weights_error check_classifiers_one_label_sample_weights
            check_sample_weight_equivalence_on_dense_data check_sample_weight_equivalence_on_sparse_data
            check_sample_weights_list check_sample_weights_not_an_array check_sample_weights_not_overwritten
            check_sample_weights_pandas_series check_sample_weights_shape""",
        "there is no class_weight": """check_class_weight_balanced_classifiers check_class_weight_classifiers
            check_class_weight_balanced_linear_classifier""",
        "sequences differ in length, so that X is no array of any library": """check_array_api_input
            check_array_api_input_and_values check_array_api_mixed_inputs check_array_api_same_namespace""",
        "tokens have features by name, not a number of columns": """check_n_features_in
            check_n_features_in_after_fitting check_dataframe_column_names_consistency""",
        "there is no partial_fit": "check_estimators_partial_fit_n_features",
        "features that a token does not name are absent: sequences are sparse as they are": """
            check_estimator_sparse_array check_estimator_sparse_matrix check_estimator_sparse_tag
            check_sparsify_coefficients""",
        "there is neither predict_proba nor decision_function: marginals come from Decoder": """
            check_decision_proba_consistency check_classifiers_multilabel_output_format_decision_function
            check_classifiers_multilabel_output_format_predict_proba""",
        "a sequence has a list of labels, not a row of indicators": """
            check_classifiers_multilabel_output_format_predict check_classifiers_multilabel_representation_invariance
            check_classifier_multioutput""",
        "it is about classifiers of two classes only": "check_classifier_not_supporting_multiclass",
        "labels are names, never numbers": "check_classifiers_regression_target",
        "there is no max_iter: progress_ counts iterations": "check_non_transformer_estimators_n_iter",
        "settings are checked by fit, with messages of Bridle: see test_models_checks.py": "check_param_validation",
        "no setting asks for X to be overwritten": "check_inplace_ensure_writeable",
        "negative values are allowed": "check_fit_non_negative",
        "X is not a matrix of distances": "check_nonsquare_error",
        "it is not a regressor": """check_regressor_data_not_an_array check_regressor_multioutput check_regressors_int
            check_regressors_no_decision_function check_regressors_train""",
        "it is not a transformer": """check_transformer_data_not_an_array check_transformer_general
            check_transformer_get_feature_names_out check_transformer_get_feature_names_out_pandas
            check_transformer_n_iter check_transformer_preserve_dtypes check_transformers_unfitted
            check_transformers_unfitted_stateless check_get_feature_names_out_error check_set_output_transform
            check_set_output_transform_pandas check_set_output_transform_polars check_global_output_transform_pandas
            check_global_set_output_transform_polars""",
        "it does not cluster": "check_clusterer_compute_labels_predict check_clustering",
        "it does not look for outliers": """check_outlier_contamination check_outlier_corruption
            check_outliers_fit_predict check_outliers_train""",
    }.items()
    for name in names.split()
}


def here(test: Callable[[Any], None]) -> Callable[[Any], None]:
    """A check that is done here; it has the name of scikit-learn's."""
    HERE[test.__name__] = test
    return test


def also_here(test: Callable[[Any], None]) -> Callable[[Any], None]:
    """One that is run as it is, too."""
    ALSO.add(test.__name__)
    return here(test)


class Rows:
    """Rows of numbers as sequences of one token, so that scikit-learn's checks can be run."""

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(sequences(X), [[str(value)] for value in y])  # type: ignore[misc]

    def predict(self, X: Any) -> Any:
        return np.array([float(labels[0]) for labels in super().predict(sequences(X))])  # type: ignore[misc]

    def score(self, X: Any, y: Any) -> float:
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        tags.target_tags.single_output, tags.target_tags.multi_output = True, False
        return tags


class RowsCRF(Rows, CRF): ...


class RowsLocalTagger(Rows, LocalTagger): ...


def sequences(X: Any) -> list[Any]:
    return [[{f"x{j}": value for j, value in enumerate(row.tolist())}] for row in np.asarray(X)]


def name_of(check: Any) -> str:
    while hasattr(check, "func"):
        check = check.func
    return str(check.__name__)


def own_checks() -> Iterator[Any]:
    for model in (RowsCRF(c2=0.1, iterations=10), RowsLocalTagger(iterations=5)):
        with pytest.warns(UserWarning, match=r"does not inherit from .*BaseEstimator"):
            checks = list(estimator_checks.estimator_checks_generator(model))
        for k, (built, check) in enumerate(checks):
            if name_of(check) in ALSO or name_of(check) not in {**NOT, **HERE}:
                yield pytest.param(built, check, id=f"{type(model).__name__}-{name_of(check)}-{k}")


def test_every_check_is_run_or_done_here_or_has_its_reason() -> None:
    module = vars(estimator_checks)
    result = {name for name, part in module.items() if name.startswith("check_") and inspect.isfunction(part)}
    own = {name for name in result if module[name].__module__ == estimator_checks.__name__}
    run = {name_of(param.values[1]) for param in own_checks()}
    assert not set(NOT) & set(HERE)
    assert own - set(NOT) - set(HERE) - run == set(), "a new check: run it, do it here, or say why not"
    assert len(run) >= 25


def test_tags_for_scikit_learn() -> None:
    tags = get_tags(CRF())
    assert tags.estimator_type is None and tags.target_tags.required
    assert not tags.input_tags.two_d_array, "its checks of arrays do not apply, and it leaves them out by itself"


@pytest.mark.filterwarnings("ignore:Can't test estimator", "ignore:Estimator .* does not inherit")
@pytest.mark.parametrize("model", [CRF(), LocalTagger()], ids=str)
def test_check_estimator(model: Tagger) -> None:
    assert [result["status"] for result in estimator_checks.check_estimator(model)] == ["passed"]


# ---- the same on sequences ------------------------------------------------------------------------------------------

X = [["the", "cat", "sleeps"], ["a", "dog"], ["dogs", "run", "and", "cats", "sleep"], ["cats"]]
Y = [["D", "N", "V"], ["D", "N"], ["N", "V", "C", "N", "V"], ["N"]]
KINDS = [CRF(features=WORD, **FAST), CRF("perceptron", features=WORD), LocalTagger(features=WORD)]  # type: ignore[arg-type]


@also_here
def check_methods_sample_order_invariance(model: Any) -> None:
    model.fit(X, Y)
    assert model.predict(X[::-1]) == model.predict(X)[::-1]
    assert model.score(X[::-1], Y[::-1]) == model.score(X, Y)


@also_here
def check_methods_subset_invariance(model: Any) -> None:
    model.fit(X, Y)
    assert [model.predict([x])[0] for x in X] == model.predict(X)
    batch = model.lattices(X)
    assert all(np.array_equal(model.lattice(x).unary, batch[b].unary) for b, x in enumerate(X))


@also_here
def check_fit_idempotent(model: Any) -> None:
    first, again = model.fit(X, Y).fingerprint_, model.fit(X, Y).fingerprint_
    assert first == again == clone(model).fit(X, Y).fingerprint_


@also_here
def check_estimators_pickle(model: Any) -> None:
    model.fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X) == model.predict(X) and again.get_params() == model.get_params()


@here
def check_fit2d_1sample(model: Any) -> None:
    assert model.fit(X[:1], Y[:1]).predict(X[:1]) == Y[:1]


@here
def check_classifiers_train(model: Any) -> None:
    assert model.fit(X, Y).score(X, Y) == 1.0


@here
def check_classifiers_predictions(model: Any) -> None:
    result = model.fit(X, Y).predict([*X, ["unknown"], []])
    assert [len(labels) for labels in result] == [3, 2, 5, 1, 1, 0]
    assert {label for labels in result for label in labels} <= set(model.classes_)


@here
def check_classifiers_classes(model: Any) -> None:
    assert not hasattr(clone(model), "classes_")
    assert model.fit(X, Y).classes_.tolist() == ["C", "D", "N", "V"]


@here
def check_classifiers_one_label(model: Any) -> None:
    with pytest.raises(LabelError, match="only the label 'N'"):
        model.fit(X[3:], Y[3:])


@here
def check_classifier_data_not_an_array(model: Any) -> None:
    ragged = np.empty(len(X), dtype=object)
    ragged[:] = X
    for other, labels in ((tuple(X), tuple(Y)), (ragged, np.array([tuple(y) for y in Y], dtype=object))):
        assert model.fit(other, labels).predict(other) == clone(model).fit(X, Y).predict(X)


@here
def check_estimators_data_not_an_array(model: Any) -> None:
    check_classifier_data_not_an_array(model)


@here
def check_complex_data(model: Any) -> None:
    with pytest.raises(FeatureError, match="the value of 'x' has no features"):
        model.set_params(features=None).fit([[{"x": 1j}, {"x": 2}]], [["A", "B"]])


@here
def check_estimators_nan_inf(model: Any) -> None:
    model.set_params(features=None).fit([[{"x": 1}, {"z": 2}]], [["A", "B"]])
    for value in (np.nan, np.inf):
        for call in (lambda bad: model.fit(bad, [["A", "B"]]), model.predict):
            with pytest.raises(FeatureError, match="not a number to count with"):
                call([[{"x": value}, {"z": 2}]])


@here
def check_estimators_empty_data_messages(model: Any) -> None:
    with pytest.raises(LabelError, match="no labels at all"):
        model.fit([], [])
    assert model.fit(X, Y).predict([]) == []


@here
def check_fit1d(model: Any) -> None:
    with pytest.raises(FeatureError, match="cut into tokens"):
        model.fit(["the", "cat"], [["D"], ["N"]])


@here
def check_fit2d_predict1d(model: Any) -> None:
    with pytest.raises(FeatureError, match="cut into tokens"):
        model.fit(X, Y).predict(["the", "cat"])


@here
def check_requires_y_none(model: Any) -> None:
    with pytest.raises(LabelError, match="y is not a list of label lists"):
        model.fit(X, None)


@here
def check_supervised_y_no_nan(model: Any) -> None:
    model.fit(X[:1], [["D", float("nan"), "V"]])  # a label that is missing
    with pytest.raises(LabelError, match="a label is not a name; got inf"):
        model.fit(X[:1], [["D", float("inf"), "V"]])


@here
def check_supervised_y_2d(model: Any) -> None:
    with pytest.raises(LabelError, match="a label is not a name"):
        model.fit(X[:1], [[["D"], ["N"], ["V"]]])


@pytest.mark.parametrize("check", HERE.values(), ids=HERE)
@pytest.mark.parametrize("model", KINDS, ids=str)
def test_checks_on_sequences(model: Tagger, check: Callable[[Any], None]) -> None:
    check(clone(model))


@pytest.mark.parametrize(("model", "check"), list(own_checks()))
def test_own_checks(model: Any, check: Callable[[Any], None]) -> None:
    check(model)


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [CRF("ibt", rules=[RULE, r.at_least(1, of="N")], c2=0.5), LocalTagger("winnow", rate=0.3)]
)
def test_settings(model: Tagger) -> None:
    assert list(model.get_params()) == list(inspect.signature(type(model)).parameters)
    copy = clone(model)
    assert type(copy) is type(model)
    assert repr(copy) == repr(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(seed=7) is copy
    assert (copy.get_params()["seed"], model.get_params()["seed"]) == (7, 0)
    with pytest.raises(ModelError, match="unknown setting 'nothing'"):
        copy.set_params(nothing=1)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)


def test_the_constructor_only_stores() -> None:
    given: dict[str, Any] = {"features": ["x"], "c2": "much", "iterations": -3, "rules": [RULE], "threads": "all"}
    assert all(CRF(**given).get_params()[name] is value for name, value in given.items())


def test_a_model_that_is_not_trained_says_so_in_both_languages() -> None:
    for kind in (ModelError, NotFittedError):
        with pytest.raises(kind, match="has not been trained") as caught:
            CRF().predict(X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, NotFittedError) and str(again) == str(caught.value)


def test_a_pipeline_draws_itself() -> None:
    page = estimator_html_repr(make_pipeline(CRF(c2=0.25)))
    assert "CRF" in page and "0.25" in page


# ---- tools ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> tuple[list[Any], list[list[str]]]:
    """Sequences of one to five tokens."""
    whole = noisy(np.random.default_rng(0), 300, 0.1)
    return [x[: 1 + k % 5] for k, x in enumerate(whole[0])], [y[: 1 + k % 5] for k, y in enumerate(whole[1])]


def test_cross_validation(data: Any) -> None:
    scores = cross_val_score(CRF(**FAST), *data, cv=4)
    assert scores.shape == (4,) and (scores > 0.6).all()
    measures = {
        "tokens": make_scorer(token_accuracy),
        "segments": make_scorer(segment_f1, scheme=None),
        "sequences": make_scorer(sequence_accuracy),
    }
    result = cross_validate(CRF(**FAST), *data, cv=4, scoring=measures)
    assert result["test_tokens"] == pytest.approx(scores)
    assert (result["test_sequences"] < result["test_tokens"]).all()


@pytest.mark.parametrize("equal", [False, True], ids=["ragged", "of one length"])
def test_predictions_of_all_folds_are_one_array_of_lists(data: Any, equal: bool) -> None:
    X, y = noisy(np.random.default_rng(0), 100, 0.1) if equal else data
    guessed = cross_val_predict(LocalTagger(), X, y, cv=KFold(3, shuffle=True, random_state=0))
    assert guessed.shape == (len(X),) and list(map(len, guessed)) == list(map(len, y))
    assert token_accuracy(y, guessed) > 0.6
    labels = LocalTagger().fit(X, y).predict(X)
    assert np.array(labels).tolist() == labels and isinstance(labels, list)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_grid_search(data: Any, jobs: int) -> None:
    wanted: dict[str, Any] = {"c2": [1e5, np.float64(0.1)], "cutoff": [1, 2], "algorithm": ["lbfgs"]}
    others = {"algorithm": ["perceptron"], "average": ["averaged", "last"]}
    search = GridSearchCV(CRF(iterations=10, threads=1), [wanted, others], cv=3, n_jobs=jobs).fit(*data)
    assert len(search.cv_results_["params"]) == 6
    scores = search.cv_results_["mean_test_score"]
    assert scores[2] > scores[0] + 0.1, "weights that may not grow cannot learn"
    assert search.best_score_ == scores.max()
    assert check_is_fitted(search.best_estimator_) is None
    assert search.best_estimator_.predict(data[0]) == search.predict(data[0])


def test_features_are_a_setting_too() -> None:
    wanted = {"features": [["bias[0]"], ["word[0]"], WORD, "pos"]}
    search = GridSearchCV(LocalTagger(), wanted, cv=2).fit(X * 4, Y * 4)
    assert search.best_params_ == {"features": ["word[0]"]} and search.best_score_ == 1.0


def test_other_searches_and_curves(data: Any) -> None:
    grid = {"c2": [1e5, 0.1]}
    for search in (
        RandomizedSearchCV(CRF(**FAST), grid, n_iter=2, cv=2, random_state=0),
        HalvingGridSearchCV(CRF(**FAST), grid, cv=2, min_resources=20, random_state=0),
    ):
        assert search.fit(*data).best_params_ == {"c2": 0.1}
    sizes, _, scores = learning_curve(CRF(**FAST), *data, cv=3, train_sizes=[0.1, 1.0])
    assert sizes.tolist() == [4, 40] and scores[1].mean() > scores[0].mean()


def test_permutations_need_groups_of_one_length(data: Any) -> None:
    lengths = np.array(list(map(len, data[1])))
    score, permuted, _ = permutation_test_score(
        LocalTagger(), *data, groups=lengths, cv=GroupKFold(2), n_permutations=5
    )
    assert score > permuted.max()
    with pytest.raises(LabelError, match="differ in length"):
        permutation_test_score(LocalTagger(), *data, cv=2, n_permutations=5)


# ---- pipelines, and what else goes through them ---------------------------------------------------------------------


def lowered(X: Any) -> list[list[str]]:
    return [[word.lower() for word in x] for x in X]


def test_pipelines() -> None:
    model = Pipeline([("lower", FunctionTransformer(lowered)), ("model", CRF(features=WORD, **FAST))])  # type: ignore[arg-type]
    model.fit(X, Y)
    shouted = [[word.upper() for word in x] for x in X[::-1]]
    assert model.predict(shouted) == Y[::-1] and model.score(shouted, Y[::-1]) == 1.0
    assert model.predict(shouted, rules=["forbid N"]) != Y[::-1]
    assert model.classes_.tolist() == ["C", "D", "N", "V"]
    search = GridSearchCV(model, {"model__cutoff": [99, 1]}, cv=2).fit(X * 4, Y * 4)
    assert search.best_params_ == {"model__cutoff": 1}


VERB = CRF("ibt", features=WORD, rules=[r.fix("V", r.given("verb"))], iterations=3)
GIVEN = [{"verb": 2}, {"verb": []}, {"verb": [1, 4]}, {"verb": []}]


def test_values_for_rules_go_through() -> None:
    alone = clone(VERB).fit(X, Y, given=GIVEN)
    model = Pipeline([("model", clone(VERB))]).fit(X, Y, model__given=GIVEN)
    assert model.named_steps["model"].fingerprint_ == alone.fingerprint_
    fitted = GridSearchCV(VERB, {"iterations": [1, 3]}, cv=2, error_score="raise").fit(X * 4, Y * 4, given=GIVEN * 4)
    assert fitted.best_score_ == 1.0


def test_metadata_routing() -> None:
    groups = [k % 4 for k in range(16)]
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(ValueError, match=r"\[given\] are passed but are not explicitly set"):
            GridSearchCV(VERB, {"seed": [0]}, cv=2).fit(X * 4, Y * 4, given=GIVEN * 4)
        asking = clone(VERB).set_fit_request(given=True).set_score_request(given=False)
        for model in (asking, clone(asking), pickle.loads(pickle.dumps(asking))):
            assert GridSearchCV(model, {"seed": [0]}, cv=2).fit(X * 4, Y * 4, given=GIVEN * 4).best_score_ == 1.0
        grouped = CRF(features=WORD, iterations=2).set_fit_request(groups=True)
        search = GridSearchCV(grouped, {"cutoff": [1]}, cv=GroupKFold(2)).fit(X * 4, Y * 4, groups=groups)
        assert search.best_estimator_.tuning_ is not None
        ruled = Pipeline([("model", clone(asking).set_predict_request(rules=True))]).fit(X, Y, given=GIVEN)
        assert "N" not in {label for labels in ruled.predict(X, rules=["forbid N"]) for label in labels}
    assert not hasattr(VERB, "_metadata_request")
    with pytest.raises(ModelError, match="fit has no argument 'soft'"):
        CRF().set_fit_request(soft=True)


def test_accuracy_under_rules() -> None:
    model = LocalTagger(features=["word[0]"]).fit(X, Y)
    assert model.score(X, Y) == 1.0
    assert model.score(X, Y, rules=["forbid V"]) == pytest.approx(8 / 11)
    assert model.score(X, Y, rules=["forbid V at given verb"], given=GIVEN) == pytest.approx(8 / 11)

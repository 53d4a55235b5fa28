// Spans that may hold others, with rules folded in.
#pragma once

#include <memory>

#include "span_graph.h"

namespace bridle {

std::unique_ptr<SpanGraph> nested_spans(Control& control);

}  // namespace bridle

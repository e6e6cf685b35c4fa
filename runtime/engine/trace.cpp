#include "runtime/engine/trace.hpp"

#include <chrono>

namespace millrace::runtime {

std::int64_t steady_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

const char* to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return "forward";
    case SpanKind::input_gradient:
      return "input_gradient";
    case SpanKind::weight_gradient:
      return "weight_gradient";
    case SpanKind::backward:
      return "backward";
    case SpanKind::optimizer:
      return "optimizer";
    case SpanKind::snapshot:
      return "snapshot";
    case SpanKind::checkpoint_write:
      return "checkpoint_write";
    case SpanKind::wait:
      return "wait";
    case SpanKind::step:
      return "step";
  }
  return "?";
}

SpanKind span_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return SpanKind::forward;
    case ActionKind::input_gradient:
      return SpanKind::input_gradient;
    case ActionKind::weight_gradient:
      return SpanKind::weight_gradient;
    case ActionKind::backward:
      return SpanKind::backward;
  }
  return SpanKind::wait;
}

}  // namespace millrace::runtime

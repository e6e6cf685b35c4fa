#include "kernels/hyper_streams.hpp"

#include "kernels/base/hyper_gates_options.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

/// Checks the streams [T, k·D] beside `one` [T, D], and returns k.
std::int64_t streams_of(const char* component, const Tensor& streams, const Tensor& one) {
  check_rank(component, "streams", streams, 2);
  check_rank(component, "x", one, 2);
  check_operand(component, "streams", streams, streams.shape, {DType::f32, DType::bf16});
  check_operand(component, "x", one, {streams.shape[0], one.shape[1]}, {streams.dtype});
  const std::int64_t width = one.shape[1], k = width > 0 ? streams.shape[1] / width : 0;
  MILLRACE_CHECK(k >= 1 && k <= max_hyper_streams && k * width == streams.shape[1], ExitCode::internal, component,
                 "streams of {} features beside one of {}, expected 1 to {} times as many", streams.shape[1], width, max_hyper_streams);
  return k;
}

}  // namespace

void expand_streams(const ExecutionContext& context, const Tensor& x, const Tensor& streams) {
  streams_of("kernels.expand_streams", streams, x);
  table::expand_streams(context, x, streams);
}

void reduce_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& y) {
  streams_of("kernels.reduce_streams", streams, y);
  table::reduce_streams(context, streams, y);
}

void collect_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& pre, const Tensor& y) {
  constexpr const char* component = "kernels.collect_streams";
  const std::int64_t k = streams_of(component, streams, y);
  check_operand(component, "pre", pre, {y.shape[0], k}, {y.dtype});
  table::collect_streams(context, streams, pre, y);
}

void collect_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& pre,
                              const Tensor& d_streams, const Tensor& d_pre) {
  constexpr const char* component = "kernels.collect_streams_gradient";
  const std::int64_t k = streams_of(component, streams, dy);
  check_operand(component, "pre", pre, {dy.shape[0], k}, {dy.dtype});
  check_operand(component, "d_streams", d_streams, streams.shape, {dy.dtype});
  check_operand(component, "d_pre", d_pre, pre.shape, {dy.dtype});
  table::collect_streams_gradient(context, dy, streams, pre, d_streams, d_pre);
}

void spread_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map,
                    const Tensor& y) {
  constexpr const char* component = "kernels.spread_streams";
  const std::int64_t k = streams_of(component, streams, v);
  check_operand(component, "post", post, {v.shape[0], k}, {v.dtype});
  check_operand(component, "map", map, {v.shape[0], k * k}, {v.dtype});
  check_operand(component, "y", y, streams.shape, {v.dtype});
  table::spread_streams(context, streams, v, post, map, y);
}

void spread_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& v, const Tensor& post,
                             const Tensor& map, const Tensor& d_streams, const Tensor& dv, const Tensor& d_post, const Tensor& d_map) {
  constexpr const char* component = "kernels.spread_streams_gradient";
  const std::int64_t k = streams_of(component, streams, v);
  check_operand(component, "dy", dy, streams.shape, {v.dtype});
  check_operand(component, "post", post, {v.shape[0], k}, {v.dtype});
  check_operand(component, "map", map, {v.shape[0], k * k}, {v.dtype});
  check_operand(component, "d_streams", d_streams, streams.shape, {v.dtype});
  check_operand(component, "dv", dv, v.shape, {v.dtype});
  check_operand(component, "d_post", d_post, post.shape, {v.dtype});
  check_operand(component, "d_map", d_map, map.shape, {v.dtype});
  table::spread_streams_gradient(context, dy, streams, v, post, map, d_streams, dv, d_post, d_map);
}

}  // namespace millrace::kernels

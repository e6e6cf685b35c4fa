#include "kernels/hyper_streams.hpp"

#include "kernels/cpu/hyper_streams_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Calls loops over all tokens; `one` is the operand [T, D].
template <class Fill>
void over_tokens(const ExecutionContext& context, const Tensor& streams, const Tensor& one,
                 void (*f32)(const HyperStreams<float>&, std::int64_t, std::int64_t),
                 void (*bf16)(const HyperStreams<BFloat16>&, std::int64_t, std::int64_t), Fill fill) {
  const std::int64_t width = one.shape[1], k = streams.shape[1] / width;
  constexpr std::int64_t features = 2048;  // of the streams that are worth a thread
  const auto run = [&]<class T>(T, auto* loops) {
    HyperStreams<T> at{.width = width, .k = k};
    fill(at);
    context.team().for_ranges(one.shape[0], features / (k * width) + 1,
                              [&](std::int64_t begin, std::int64_t end) { loops(at, begin, end); });
  };
  if (one.dtype == DType::f32)
    run(float{}, f32);
  else
    run(BFloat16{}, bf16);
}

template <class T>
T* in(const Tensor& x, const HyperStreams<T>&) {
  return x.as<T>();
}

void expand_streams(const ExecutionContext& context, const Tensor& x, const Tensor& streams) {
  over_tokens(context, streams, x, pick_expand_streams_f32(), pick_expand_streams_bf16(), [&](auto& at) {
    at.one = in(x, at);
    at.to_streams = in(streams, at);
  });
}

void reduce_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& y) {
  over_tokens(context, streams, y, pick_reduce_streams_f32(), pick_reduce_streams_bf16(), [&](auto& at) {
    at.streams = in(streams, at);
    at.to_one = in(y, at);
  });
}

void collect_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& pre, const Tensor& y) {
  over_tokens(context, streams, y, pick_collect_streams_f32(), pick_collect_streams_bf16(), [&](auto& at) {
    at.streams = in(streams, at);
    at.pre = in(pre, at);
    at.to_one = in(y, at);
  });
}

void collect_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& pre,
                              const Tensor& d_streams, const Tensor& d_pre) {
  over_tokens(context, streams, dy, pick_collect_streams_gradient_f32(), pick_collect_streams_gradient_bf16(), [&](auto& at) {
    at.one = in(dy, at);
    at.streams = in(streams, at);
    at.pre = in(pre, at);
    at.to_streams = in(d_streams, at);
    at.to_gates = in(d_pre, at);
  });
}

void spread_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map,
                    const Tensor& y) {
  over_tokens(context, streams, v, pick_spread_streams_f32(), pick_spread_streams_bf16(), [&](auto& at) {
    at.streams = in(streams, at);
    at.one = in(v, at);
    at.post = in(post, at);
    at.map = in(map, at);
    at.to_streams = in(y, at);
  });
}

void spread_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& v, const Tensor& post,
                             const Tensor& map, const Tensor& d_streams, const Tensor& dv, const Tensor& d_post, const Tensor& d_map) {
  over_tokens(context, streams, v, pick_spread_streams_gradient_f32(), pick_spread_streams_gradient_bf16(), [&](auto& at) {
    at.dy = in(dy, at);
    at.streams = in(streams, at);
    at.one = in(v, at);
    at.post = in(post, at);
    at.map = in(map, at);
    at.to_streams = in(d_streams, at);
    at.to_one = in(dv, at);
    at.to_gates = in(d_post, at);
    at.to_map = in(d_map, at);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::expand_streams, expand_streams},   {Backend::cpu, table::reduce_streams, reduce_streams},
    {Backend::cpu, table::collect_streams, collect_streams}, {Backend::cpu, table::collect_streams_gradient, collect_streams_gradient},
    {Backend::cpu, table::spread_streams, spread_streams},   {Backend::cpu, table::spread_streams_gradient, spread_streams_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu

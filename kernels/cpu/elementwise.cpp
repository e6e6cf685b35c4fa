#include "kernels/elementwise.hpp"

#include <cstring>

#include "kernels/cpu/elementwise_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Fewer elements are not worth waking a thread; it is also a whole number of pages in any dtype, so that threads do not share
/// pages.
constexpr std::int64_t kGrain = 8192;

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  context.team().for_ranges(y.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (y.dtype == DType::f32)
      pick_add_f32()(a.as<float>(), b.as<float>(), y.as<float>(), begin, end);
    else
      pick_add_bf16()(a.as<BFloat16>(), b.as<BFloat16>(), y.as<BFloat16>(), begin, end);
  });
}

void scale(const ExecutionContext& context, const Tensor& x, ScaleOptions options, const Tensor& y) {
  context.team().for_ranges(y.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (y.dtype == DType::f32)
      pick_scale_f32()(x.as<float>(), options.factor, y.as<float>(), begin, end);
    else
      pick_scale_bf16()(x.as<BFloat16>(), options.factor, y.as<BFloat16>(), begin, end);
  });
}

void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_accumulate_f32()(x.as<float>(), accumulator.as<float>(), begin, end);
    else
      pick_accumulate_bf16()(x.as<BFloat16>(), accumulator.as<float>(), begin, end);
  });
}

void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::int64_t>(size_of(x.dtype));
    if (x.dtype == y.dtype)
      std::memmove(y.data + begin * size, x.data + begin * size, static_cast<std::size_t>((end - begin) * size));
    else if (x.dtype == DType::bf16)
      pick_widen()(x.as<BFloat16>(), y.as<float>(), begin, end);
    else
      pick_narrow()(x.as<float>(), y.as<BFloat16>(), begin, end);
  });
}

void fill_zero(const ExecutionContext& context, const Tensor& y) {
  context.team().for_ranges(static_cast<std::int64_t>(y.bytes()), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(y.data + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::add, add},         {Backend::cpu, table::scale, scale},         {Backend::cpu, table::accumulate, accumulate},
    {Backend::cpu, table::convert, convert}, {Backend::cpu, table::fill_zero, fill_zero},
};

}  // namespace
}  // namespace millrace::kernels::cpu

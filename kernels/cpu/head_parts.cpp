#include "kernels/head_parts.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 4;

// Calls piece(the whole's elements at the token, the part's, where it is) for every token and part.
template <class T, class Piece>
void for_pieces(const ExecutionContext& context, const Tensor& whole, HeadPartsOptions options, std::span<const Tensor> parts,
                Piece&& piece) {
  context.team().for_ranges(whole.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for_head_parts(whole, options, parts, [&](const Tensor& part, const HeadPart& place) {
        piece(whole.as<T>() + token * whole.shape[1], part.as<T>() + token * part.shape[1], place);
      });
  });
}

template <class T>
void copy(T* to, const T* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

/// Columns that are interleaved are heads of one feature: a call for each would take longer than its copy.
template <class T>
void copy_heads(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, const HeadPart& place) {
  if (place.width == 1)
    for (std::int64_t head = 0; head < place.heads; ++head) to[head * to_step] = from[head * from_step];
  else
    for (std::int64_t head = 0; head < place.heads; ++head) copy(to + head * to_step, from + head * from_step, place.width);
}

template <class T>
void join(T* whole, const T* part, const HeadPart& place) {
  copy_heads(whole + place.offset, place.head_width, part, place.shared ? 0 : place.width, place);
}

// Adds the heads' parts in order, in fp32, a block of features at a time, whose sums are on the stack.
template <class T>
void add_heads(const T* first, const HeadPart& place, T* part) {
  constexpr std::int64_t kFeatures = 64;
  float sums[kFeatures];
  for (std::int64_t d = 0; d < place.width; d += kFeatures) {
    const std::int64_t count = std::min(kFeatures, place.width - d);
    for (std::int64_t i = 0; i < count; ++i) sums[i] = to_float(first[d + i]);
    for (std::int64_t head = 1; head < place.heads; ++head) {
      const T* x = first + head * place.head_width + d;
      for (std::int64_t i = 0; i < count; ++i) sums[i] += to_float(x[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) part[d + i] = from_float<T>(sums[i]);
  }
}

template <class T>
void split(const T* whole, T* part, const HeadPart& place) {
  if (place.shared)
    add_heads(whole + place.offset, place, part);
  else
    copy_heads(part, place.width, whole + place.offset, place.head_width, place);
}

void join_heads(const ExecutionContext& context, std::span<const Tensor> parts, HeadPartsOptions options, const Tensor& y) {
  const auto join_all = [&]<class T>(T) { for_pieces<T>(context, y, options, parts, join<T>); };
  if (y.dtype == DType::f32)
    join_all(float{});
  else
    join_all(BFloat16{});
}

void split_heads(const ExecutionContext& context, const Tensor& x, HeadPartsOptions options, std::span<const Tensor> parts) {
  const auto split_all = [&]<class T>(T) { for_pieces<T>(context, x, options, parts, split<T>); };
  if (x.dtype == DType::f32)
    split_all(float{});
  else
    split_all(BFloat16{});
}

const InTable in_table[] = {
    {Backend::cpu, table::join_heads, join_heads},
    {Backend::cpu, table::split_heads, split_heads},
};

}  // namespace
}  // namespace millrace::kernels::cpu

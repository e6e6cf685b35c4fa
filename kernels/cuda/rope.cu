#include "kernels/rope.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr std::int64_t kRopeHeads = 4;  // heads for which a thread reuses the sines it computed

template <bool Interleaved, class T>
struct RotateHeads {
  const T* x;
  const std::int32_t* positions;
  const float* inverse_frequencies;
  T* y;
  std::int64_t heads, width, half, groups;               // groups of heads
  std::int64_t packs, copied_packs;                      // packs of one half, and of the features that are not rotated
  std::int64_t rotated_begin, copied_begin, copied_end;  // features of a head
  float direction, factor;
  bool aligned;

  // Handles one pack for a token and a group of heads.
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t pack = index % (packs + copied_packs), group = index / (packs + copied_packs);
    if (pack >= packs)
      copy(copied_begin + (pack - packs) * kPack<T>, group);
    else if (aligned)
      rotate<true>(pack * kPack<T>, group);
    else
      rotate<false>(pack * kPack<T>, group);
  }

  // Copies the features from `first` on that are not rotated.
  __device__ void copy(std::int64_t first, std::int64_t group) const {
    const std::int64_t token = group / groups, last = (group % groups + 1) * kRopeHeads, end = last < heads ? last : heads;
    for (std::int64_t head = group % groups * kRopeHeads; head < end; ++head)
      for (std::int64_t d = first; d < copied_end && d < first + kPack<T>; ++d) {
        const std::int64_t at = (token * heads + head) * width + d;
        y[at] = x[at];
      }
  }

  // Rotates the pairs from i on: the same pack of both halves, or two neighbouring packs.
  template <bool Whole>
  __device__ void rotate(std::int64_t i, std::int64_t token_group) const {
    constexpr int n = kPack<T>;
    const std::int64_t group = token_group % groups, token = token_group / groups;
    const std::int64_t left = half - i;
    const auto position = static_cast<float>(positions[token]);
    float sine[n], cosine[n];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      sincosf(position * (k < left ? inverse_frequencies[i + k] : 0.0F), &sine[k], &cosine[k]);
      cosine[k] = rounded<T>(cosine[k] * factor);
      sine[k] = rounded<T>(sine[k] * factor) * direction;
    }
    const std::int64_t second = Interleaved ? n : half;
    const std::int64_t first_count = Interleaved ? 2 * left : left, second_count = Interleaved ? 2 * left - n : left;
    const std::int64_t end = (group + 1) * kRopeHeads < heads ? (group + 1) * kRopeHeads : heads;
    for (std::int64_t head = group * kRopeHeads; head < end; ++head) {
      const std::int64_t at = (token * heads + head) * width + rotated_begin + (Interleaved ? 2 * i : i);
      float value[2 * n];
      load_pack<Whole, n>(x + at, first_count, value);
      load_pack<Whole, n>(x + at + second, second_count, value + n);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        float& a = value[Interleaved ? 2 * k : k];
        float& b = value[Interleaved ? 2 * k + 1 : n + k];
        const float before = a;
        a = before * cosine[k] - b * sine[k];
        b = b * cosine[k] + before * sine[k];
      }
      store_pack<Whole, n>(y + at, first_count, value);
      store_pack<Whole, n>(y + at + second, second_count, value + n);
    }
  }
};

template <bool Interleaved, class T>
void rotate_heads(const ExecutionContext& context, const char* component, const Tensor& x, const Tensor& positions,
                  const Tensor& inverse_frequencies, RopeOptions options, const Tensor& y) {
  const std::int64_t heads = x.shape[1], width = x.shape[2], half = (width - options.unrotated) / 2;
  const std::int64_t packs = (half + kPack<T> - 1) / kPack<T>, groups = (heads + kRopeHeads - 1) / kRopeHeads;
  const std::int64_t copied_packs = (options.unrotated + kPack<T> - 1) / kPack<T>;
  const std::int64_t rotated_begin = options.rotate_last ? options.unrotated : 0;
  const std::int64_t copied_begin = options.rotate_last ? 0 : 2 * half;
  const bool aligned = half % kPack<T> == 0 && width % kPack<T> == 0 && rotated_begin % kPack<T> == 0 && packs_aligned({x.data, y.data});
  for_each(context, component, x.shape[0] * groups * (packs + copied_packs),
           RotateHeads<Interleaved, T>{x.as<T>(), positions.as<std::int32_t>(), inverse_frequencies.as<float>(), y.as<T>(), heads, width,
                                       half, groups, packs, copied_packs, rotated_begin, copied_begin, copied_begin + options.unrotated,
                                       static_cast<float>(options.direction), options.factor, aligned});
}

void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y) {
  constexpr const char* component = "kernels.rope";
  with_type(x.dtype, [&]<class T>(T) {
    if (options.interleaved)
      rotate_heads<true, T>(context, component, x, positions, inverse_frequencies, options, y);
    else
      rotate_heads<false, T>(context, component, x, positions, inverse_frequencies, options, y);
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::rope, rope},
};

}  // namespace
}  // namespace millrace::kernels::cuda

#include "kernels/cpu/short_convolution_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr int kVectors = static_cast<int>(kChannels / 16);

/// The weights of a strip of channels, tap by tap; zero for channels beyond the strip.
struct Taps {
  alignas(64) float of[kMaxTaps][kChannels];
};
template <class T>
MILLRACE_INLINE void load_taps(const ShortConvolution<T>& in, std::int64_t channel, std::int64_t count, Taps& taps) {
  for (std::int64_t j = 0; j < in.taps; ++j)
    for (std::int64_t n = 0; n < kChannels; ++n) {
      const std::int64_t at = (channel + n) * in.taps + j;
      taps.of[j][n] = n >= count ? 0.0F : in.w != nullptr ? in.w[at] : to_float(in.w16[at]);
    }
}

/// Whether token t begins a row, or a segment where that counts.
template <class T>
MILLRACE_INLINE bool begins(const ShortConvolution<T>& in, std::int64_t t) {
  return t % in.sequence == 0 || (in.reset && in.segments[t] != in.segments[t - 1]);
}
/// How many of the taps at token t lie on tokens that it sees, its own among them.
template <class T>
MILLRACE_INLINE std::int64_t reach(const ShortConvolution<T>& in, std::int64_t t) {
  const std::int64_t last = (in.taps - 1) * in.dilation;
  std::int64_t back = 0;
  while (back < last && !begins(in, t - back)) ++back;
  return in.dilation == 1 ? back + 1 : back / in.dilation + 1;
}

/// Calls body(channel, channels of the strip, vectors of it) for the strips of [begin, end).
template <class Body>
MILLRACE_INLINE void for_strips(std::int64_t begin, std::int64_t end, Body&& body) {
  for (std::int64_t channel = begin; channel < end; channel += kChannels) {
    const std::int64_t count = end - channel < kChannels ? end - channel : kChannels;
    if (count == kChannels)
      body(channel, kChannels, kVectors);  // loops of constant length
    else
      body(channel, count, static_cast<int>((count + 15) / 16));
  }
}

/// The convolution at token t, rounded to x's dtype.
template <class T>
MILLRACE_INLINE void convolve(const ShortConvolution<T>& in, const Taps& taps, std::int64_t t, std::int64_t channel, std::int64_t count,
                              int vectors, f32x16* sum) {
  for (int v = 0; v < vectors; ++v) sum[v] = f32x16{};
  for (std::int64_t distance = reach(in, t) - 1; distance >= 0; --distance) {
    const T* x = in.x + (t - distance * in.dilation) * in.channels + channel;
    const float* weight = taps.of[in.taps - 1 - distance];
    for (int v = 0; v < vectors; ++v) sum[v] += load(weight + 16 * v) * load_lanes(x + 16 * v, count - 16 * v);
  }
  for (int v = 0; v < vectors; ++v) sum[v] = round_to<T>(sum[v]);
}

/// The gradient of the sum at token t.
template <class T>
MILLRACE_INLINE void upstream(const ShortConvolution<T>& in, const Taps& taps, const T* dy, std::int64_t t, std::int64_t channel,
                              std::int64_t count, int vectors, f32x16* gradient) {
  f32x16 sum[kVectors];
  if (in.silu) convolve(in, taps, t, channel, count, vectors, sum);
  for (int v = 0; v < vectors; ++v) {
    gradient[v] = load_lanes(dy + t * in.channels + channel + 16 * v, count - 16 * v);
    if (!in.silu) continue;
    const f32x16 s = sigmoid(sum[v]);
    gradient[v] *= s * (1.0F + sum[v] * (1.0F - s));
  }
}

template <class T>
MILLRACE_INLINE void forward(const ShortConvolutionForward<T>& at, std::int64_t begin, std::int64_t end) {
  Taps taps;
  for_strips(
      begin, end, [&](std::int64_t channel, std::int64_t count, int vectors) __attribute__((always_inline)) {
        load_taps(at.in, channel, count, taps);
        for (std::int64_t t = 0; t < at.in.tokens; ++t) {
          f32x16 sum[kVectors];
          convolve(at.in, taps, t, channel, count, vectors, sum);
          for (int v = 0; v < vectors; ++v)
            store_lanes(at.y + t * at.in.channels + channel + 16 * v, at.in.silu ? sum[v] * sigmoid(sum[v]) : sum[v], count - 16 * v);
        }
      });
}

template <class T>
MILLRACE_INLINE void input_gradient(const ShortConvolutionInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const ShortConvolution<T>& in = at.in;
  Taps taps;
  const std::int64_t span = (in.taps - 1) * in.dilation + 1;
  f32x16 recent[kMaxSpan][kVectors];  // gradients of the sums at the last tokens, that of token t in slot t % span
  for_strips(
      begin, end, [&](std::int64_t channel, std::int64_t count, int vectors) __attribute__((always_inline)) {
        load_taps(in, channel, count, taps);
        std::int64_t later = 0;  // tokens behind t that see it, if they are near enough
        for (std::int64_t t = in.tokens - 1; t >= 0; --t) {
          upstream(in, taps, at.dy, t, channel, count, vectors, recent[t % span]);
          f32x16 sum[kVectors] = {};
          for (std::int64_t distance = 0; distance < in.taps && distance * in.dilation <= later; ++distance) {
            const float* weight = taps.of[in.taps - 1 - distance];
            for (int v = 0; v < vectors; ++v) sum[v] += load(weight + 16 * v) * recent[(t + distance * in.dilation) % span][v];
          }
          for (int v = 0; v < vectors; ++v) store_lanes(at.dx + t * in.channels + channel + 16 * v, sum[v], count - 16 * v);
          later = begins(in, t) ? 0 : later + 1;
        }
      });
}

template <class T>
MILLRACE_INLINE void weight_gradient(const ShortConvolutionWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t block = 64;
  const ShortConvolution<T>& in = at.in;
  Taps taps;
  for_strips(
      begin, end, [&](std::int64_t channel, std::int64_t count, int vectors) __attribute__((always_inline)) {
        load_taps(in, channel, count, taps);
        for (std::int64_t first = 0; first < in.tokens; first += block) {
          const std::int64_t last = first + block < in.tokens ? first + block : in.tokens;
          Taps sums = {};
          for (std::int64_t t = first; t < last; ++t) {
            f32x16 gradient[kVectors];
            upstream(in, taps, at.dy, t, channel, count, vectors, gradient);
            for (std::int64_t distance = reach(in, t) - 1; distance >= 0; --distance) {
              const T* x = in.x + (t - distance * in.dilation) * in.channels + channel;
              float* sum = sums.of[in.taps - 1 - distance];
              for (int v = 0; v < vectors; ++v)
                store(sum + 16 * v, load(sum + 16 * v) + gradient[v] * load_lanes(x + 16 * v, count - 16 * v));
            }
          }
          for (std::int64_t n = 0; n < count; ++n)
            for (std::int64_t j = 0; j < in.taps; ++j) at.dw[(channel + n) * in.taps + j] += sums.of[j][n];
        }
      });
}

}  // namespace

namespace MILLRACE_ISA {

void short_convolution_forward_f32(const ShortConvolutionForward<float>& at, std::int64_t begin, std::int64_t end) {
  forward(at, begin, end);
}
void short_convolution_forward_bf16(const ShortConvolutionForward<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  forward(at, begin, end);
}
void short_convolution_input_gradient_f32(const ShortConvolutionInputGradient<float>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void short_convolution_input_gradient_bf16(const ShortConvolutionInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void short_convolution_weight_gradient_f32(const ShortConvolutionWeightGradient<float>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}
void short_convolution_weight_gradient_bf16(const ShortConvolutionWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu

#pragma once

#include <cstdint>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// kernels/short_convolution.hpp.
struct ShortConvolutionOptions {
  std::int64_t sequence = 0;  // S: the T = rows·S tokens are rows of this length
  bool silu = false;          // y = silu of the sum, which is rounded to x's dtype first
  // A token sees no token of another segment; false: the convolution reaches across the borders of documents, as in MaxText and
  // transformers
  bool reset_at_segments = true;
  bool one_segment = false;   // promise of the caller that every row is a single segment, so that `segments` is not read
  std::int64_t dilation = 1;  // places from one tap to the next; (W − 1)·dilation + 1 is at most max_convolution_span

  static constexpr auto members() {
    return std::tuple(member("sequence", &ShortConvolutionOptions::sequence), member("silu", &ShortConvolutionOptions::silu),
                      member("reset_at_segments", &ShortConvolutionOptions::reset_at_segments),
                      member("one_segment", &ShortConvolutionOptions::one_segment), member("dilation", &ShortConvolutionOptions::dilation));
  }
};

/// The widest kernel that is supported: its taps, and the places from its first tap to its last, both counted.
inline constexpr std::int64_t max_convolution_taps = 16;
inline constexpr std::int64_t max_convolution_span = 64;

}  // namespace millrace::kernels

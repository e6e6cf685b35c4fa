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
  bool one_segment = false;  // promise of the caller that every row is a single segment, so that `segments` is not read

  static constexpr auto members() {
    return std::tuple(member("sequence", &ShortConvolutionOptions::sequence), member("silu", &ShortConvolutionOptions::silu),
                      member("reset_at_segments", &ShortConvolutionOptions::reset_at_segments),
                      member("one_segment", &ShortConvolutionOptions::one_segment));
  }
};

/// The widest kernel that is supported.
inline constexpr std::int64_t max_convolution_taps = 16;

}  // namespace millrace::kernels

#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct RopeOptions {
  int direction = 1;         // −1 rotates back, for the input gradient
  float factor = 1.0F;       // multiplies cos and sin (YaRN's attention factor)
  bool interleaved = false;  // pairs are neighbours, x[2i] and x[2i+1], instead of x[i] and x[i+R/2]
  // The features of every head that are copied without a rotation (partial rotary embedding); R = D − unrotated. They are the last ones,
  // or with rotate_last the first (multi-head latent attention).
  std::int64_t unrotated = 0;
  bool rotate_last = false;

  static constexpr auto members() {
    return std::tuple(member("direction", &RopeOptions::direction), member("factor", &RopeOptions::factor),
                      member("interleaved", &RopeOptions::interleaved), member("unrotated", &RopeOptions::unrotated),
                      member("rotate_last", &RopeOptions::rotate_last));
  }
};

/// Rotary embedding (Su et al., arXiv 2104.09864) of R features x of every head vector, the first ones unless options.rotate_last: for
/// i < R/2, the pair (a, b) = (x[i], x[i+R/2]) becomes (a cos φ − b sin φ, b cos φ + a sin φ) with φ =
/// positions[t]·inverse_frequencies[i]. The other features are copied. x, y [T, H, D] of one dtype (may be the same memory); positions i32
/// [T]; inverse_frequencies f32 [R/2]. cos and sin are rounded to x's dtype as transformers does; the rest is fp32 with one rounding at the
/// end (transformers rounds each product and sum). Throws Error(config) if R is odd or unrotated is not from 0 to D.
void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(rope)> rope("rope");
}  // namespace table

}  // namespace millrace::kernels

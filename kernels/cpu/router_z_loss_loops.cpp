#include "kernels/cpu/router_z_loss_loops.hpp"

#include "kernels/cpu/softmax_row.hpp"

namespace millrace::kernels::cpu {
namespace {

MILLRACE_INLINE double log_sum_exp(SoftmaxRow row) {
  return static_cast<double>(row.maximum) + __builtin_log(static_cast<double>(row.sum));
}

template <class T>
MILLRACE_INLINE void z_terms(const T* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, double* terms) {
  for (std::int64_t t = begin; t < end; ++t) {
    const double z = log_sum_exp(softmax_row(logits + t * experts, experts));
    terms[t - begin] = z * z;
  }
}

template <class T>
MILLRACE_INLINE void z_gradient(const T* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, float scale, T* d_logits) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T* row = logits + t * experts;
    const SoftmaxRow softmax = softmax_row(row, experts);
    const auto by = static_cast<float>(2 * static_cast<double>(scale) * log_sum_exp(softmax) / static_cast<double>(softmax.sum));
    for (std::int64_t e = 0; e < experts; e += 16)
      store_lanes(d_logits + t * experts + e, exponential(load_logits(row + e, experts - e) - softmax.maximum) * by, experts - e);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void z_terms_f32(const float* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, double* terms) {
  z_terms(logits, experts, begin, end, terms);
}
void z_terms_bf16(const BFloat16* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, double* terms) {
  z_terms(logits, experts, begin, end, terms);
}
void z_gradient_f32(const float* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, float scale, float* d_logits) {
  z_gradient(logits, experts, begin, end, scale, d_logits);
}
void z_gradient_bf16(const BFloat16* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, float scale, BFloat16* d_logits) {
  z_gradient(logits, experts, begin, end, scale, d_logits);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu

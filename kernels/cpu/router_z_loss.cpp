#include "kernels/router_z_loss.hpp"

#include "kernels/cpu/router_z_loss_loops.hpp"
#include "kernels/cpu/sum_tokens.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 8;

void router_z_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& loss) {
  const std::int64_t experts = logits.shape[1];
  loss.as<double>()[0] = sum_tokens(context.team(), logits.shape[0], [&](std::int64_t begin, std::int64_t end, double* terms) {
    if (logits.dtype == DType::f32)
      pick_z_terms_f32()(logits.as<float>(), experts, begin, end, terms);
    else
      pick_z_terms_bf16()(logits.as<BFloat16>(), experts, begin, end, terms);
  });
}

void router_z_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& scale, const Tensor& d_logits) {
  const std::int64_t experts = logits.shape[1];
  const float by = scale.as<float>()[0];
  context.team().for_ranges(logits.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    if (logits.dtype == DType::f32)
      pick_z_gradient_f32()(logits.as<float>(), experts, begin, end, by, d_logits.as<float>());
    else
      pick_z_gradient_bf16()(logits.as<BFloat16>(), experts, begin, end, by, d_logits.as<BFloat16>());
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::router_z_loss, router_z_loss},
    {Backend::cpu, table::router_z_loss_input_gradient, router_z_loss_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu

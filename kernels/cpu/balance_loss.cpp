#include "kernels/balance_loss.hpp"

#include <algorithm>

#include "kernels/cpu/balance_loss_loops.hpp"
#include "kernels/cpu/sum_tokens.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 8;

template <class T>
BalancedTokens<T> balanced_tokens(const Tensor& logits, const Tensor& choices, BalanceLossOptions options) {
  return {logits.as<T>(), choices.as<std::int32_t>(), logits.shape[1], logits.shape[0] / options.sequences};
}

void balance_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& experts, BalanceLossOptions options,
                  const Tensor& loss, const Tensor& choices) {
  const std::int64_t tokens = logits.shape[0], count = logits.shape[1], chosen = experts.shape[1];
  const std::int64_t of_sequence = tokens / options.sequences * chosen;  // choices
  const auto* expert = experts.as<std::int32_t>();
  context.team().for_ranges(options.sequences, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sequence = begin; sequence < end; ++sequence) {
      auto* choice = choices.as<std::int32_t>() + sequence * count;
      std::fill_n(choice, count, 0);
      for (std::int64_t i = sequence * of_sequence; i < (sequence + 1) * of_sequence; ++i) ++choice[expert[i]];
    }
  });
  const double sum = sum_tokens(context.team(), tokens, [&](std::int64_t begin, std::int64_t end, double* terms) {
    if (logits.dtype == DType::f32)
      pick_balance_terms_f32()(balanced_tokens<float>(logits, choices, options), begin, end, terms);
    else
      pick_balance_terms_bf16()(balanced_tokens<BFloat16>(logits, choices, options), begin, end, terms);
  });
  loss.as<double>()[0] = sum * balance_factor(logits.shape, options);
}

void balance_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& choices, const Tensor& scale,
                                 BalanceLossOptions options, const Tensor& d_logits) {
  const auto factor = static_cast<float>(static_cast<double>(scale.as<float>()[0]) * balance_factor(logits.shape, options));
  context.team().for_ranges(logits.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    if (logits.dtype == DType::f32)
      pick_balance_gradient_f32()(balanced_tokens<float>(logits, choices, options), begin, end, factor, d_logits.as<float>());
    else
      pick_balance_gradient_bf16()(balanced_tokens<BFloat16>(logits, choices, options), begin, end, factor, d_logits.as<BFloat16>());
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::balance_loss, balance_loss},
    {Backend::cpu, table::balance_loss_input_gradient, balance_loss_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu

#include "kernels/muon.hpp"

#include <algorithm>

#include "kernels/cpu/muon_loops.hpp"
#include "kernels/cpu/update_pointers.hpp"

namespace millrace::kernels::cpu {
namespace {

void muon_momentum(const ExecutionContext& context, const MuonMomentum& rule, const Tensor& gradient, const Tensor& momentum) {
  context.team().for_ranges(gradient.elements(), update_grain, [&](std::int64_t begin, std::int64_t end) {
    if (momentum.dtype == DType::f32)
      pick_muon_momentum_f32()(rule, gradient.as<float>(), momentum.as<float>(), begin, end);
    else
      pick_muon_momentum_bf16()(rule, gradient.as<float>(), momentum.as<BFloat16>(), begin, end);
  });
}

void muon_normalize(const ExecutionContext& context, const MuonNorm& rule, const Tensor& square, const Tensor& x) {
  const float divisor = muon_divisor(rule, *square.as<double>());
  context.team().for_ranges(x.elements(), update_grain,
                            [&](std::int64_t begin, std::int64_t end) { pick_divide_range()(x.as<float>(), divisor, begin, end); });
}

void muon_polynomial(const ExecutionContext& context, const MuonPolynomial& rule, const Tensor& gram, const Tensor& value) {
  const std::int64_t side = gram.shape[0];
  context.team().for_ranges(side, std::max<std::int64_t>(1, update_grain / side), [&](std::int64_t begin, std::int64_t end) {
    pick_muon_polynomial_rows()(rule, gram.as<float>(), value.as<float>(), side, begin, end);
  });
}

void muon_step(const ExecutionContext& context, const MuonStep& rule, const Tensor& x, const Tensor& parameter, const Tensor& gradient,
               const Tensor& copy) {
  const MuonStepPointers at{x.as<float>(), parameter.as<float>(), gradient.as<float>(), copy.as<BFloat16>()};
  context.team().for_ranges(x.elements(), update_grain,
                            [&](std::int64_t begin, std::int64_t end) { pick_muon_step_range()(rule, at, begin, end); });
}

const InTable in_table[] = {
    {Backend::cpu, table::muon_momentum, muon_momentum},
    {Backend::cpu, table::muon_normalize, muon_normalize},
    {Backend::cpu, table::muon_polynomial, muon_polynomial},
    {Backend::cpu, table::muon_step, muon_step},
};

}  // namespace
}  // namespace millrace::kernels::cpu

#pragma once

#include <cmath>
#include <span>

#include "kernels/cuda/vector.cuh"
#include "kernels/optimizer_tensors.hpp"

/// One kernel for all element-wise optimizers: a launch updates up to `update_places` tensors. A Rule has the constant `states`,
/// the number of optimizer states that it uses, and operator()(parameter, states, gradient, decays) for one element.
namespace millrace::kernels::cuda {

inline constexpr int update_places = 32;  // tensors of a launch
inline constexpr int update_pack = 4;
inline constexpr std::int64_t update_chunk = 4096;  // elements of a block

template <int States>
struct UpdatePlace {
  float* parameter;
  float* gradient;
  __nv_bfloat16* copy;
  float* states[States > 0 ? States : 1];
  __nv_bfloat16* narrow;  // the first state if it is bf16, else null
  std::int64_t elements;
  unsigned first_block;
  bool decays, aligned;
};

template <class Rule>
struct UpdateBatch {
  UpdatePlace<Rule::states> places[update_places];
  int count;
  Rule rule;
};

template <bool Whole, class Rule>
__device__ __forceinline__ void update_elements(const Rule& rule, const UpdatePlace<Rule::states>& at, std::int64_t i, std::int64_t left) {
  constexpr int n = update_pack;
  constexpr int states = Rule::states > 0 ? Rule::states : 1;
  float parameter[n], gradient[n], state[states][n];
  load_pack<Whole, n>(at.gradient + i, left, gradient);
  load_pack<Whole, n>(at.parameter + i, left, parameter);
#pragma unroll
  for (int s = 0; s < Rule::states; ++s) {
    if (s == 0 && at.narrow != nullptr)
      load_pack<Whole, n>(at.narrow + i, left, state[s]);
    else
      load_pack<Whole, n>(at.states[s] + i, left, state[s]);
  }
#pragma unroll
  for (int k = 0; k < n; ++k) {
    float own[states];
#pragma unroll
    for (int s = 0; s < Rule::states; ++s) own[s] = state[s][k];
    rule(parameter[k], own, gradient[k], at.decays);
#pragma unroll
    for (int s = 0; s < Rule::states; ++s) state[s][k] = own[s];
    gradient[k] = 0.0F;
  }
  store_pack<Whole, n>(at.parameter + i, left, parameter);
#pragma unroll
  for (int s = 0; s < Rule::states; ++s) {
    if (s == 0 && at.narrow != nullptr)
      store_pack<Whole, n>(at.narrow + i, left, state[s]);
    else
      store_pack<Whole, n>(at.states[s] + i, left, state[s]);
  }
  store_pack<Whole, n>(at.gradient + i, left, gradient);
  if (at.copy != nullptr) store_pack<Whole, n>(at.copy + i, left, parameter);
}

template <class Rule>
__global__ void __launch_bounds__(kThreads) update_chunks(UpdateBatch<Rule> batch) {
  int which = 0;
  while (which + 1 < batch.count && batch.places[which + 1].first_block <= blockIdx.x) ++which;
  const auto& at = batch.places[which];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - at.first_block) * update_chunk;
  const std::int64_t end = begin + update_chunk < at.elements ? begin + update_chunk : at.elements;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * update_pack; i < end; i += kThreads * update_pack) {
    if (at.aligned && end - i >= update_pack)
      update_elements<true>(batch.rule, at, i, end - i);
    else
      update_elements<false>(batch.rule, at, i, end - i);
  }
}

/// Enqueues the update of all tensors on the context's compute stream.
template <class Rule>
void update_tensors(const ExecutionContext& context, const char* component, const Rule& rule, std::span<const OptimizerTensors> tensors) {
  static_assert(sizeof(UpdateBatch<Rule>) < 4096, "kernel arguments");
  UpdateBatch<Rule> batch = {};
  batch.rule = rule;
  unsigned blocks = 0;
  const auto flush = [&] {
    if (batch.count > 0) launch(context, component, update_chunks<Rule>, dim3(blocks), dim3(kThreads), 0, batch);
    batch.count = 0;
    blocks = 0;
  };
  for (const OptimizerTensors& each : tensors) {
    if (each.parameter.elements() == 0) continue;
    UpdatePlace<Rule::states>& at = batch.places[batch.count++];
    at = {};
    at.parameter = each.parameter.as<float>();
    at.gradient = each.gradient.as<float>();
    at.copy = each.copy.as<__nv_bfloat16>();
    at.elements = each.parameter.elements();
    at.first_block = blocks;
    at.decays = each.decays;
    at.aligned = packs_aligned({each.parameter.data, each.gradient.data, each.copy.data});
    for (int s = 0; s < Rule::states; ++s) {
      at.states[s] = each.states[static_cast<std::size_t>(s)].as<float>();
      at.aligned = at.aligned && packs_aligned({at.states[s]});
    }
    if (Rule::states > 0 && each.states[0].dtype == DType::bf16) at.narrow = each.states[0].as<__nv_bfloat16>();
    blocks += blocks_of(each.parameter.elements(), update_chunk);
    if (batch.count == update_places) flush();
  }
  flush();
}

}  // namespace millrace::kernels::cuda

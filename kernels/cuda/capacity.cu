#include "kernels/capacity.hpp"

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

struct NoneDropped {
  std::int32_t* dropped;
  __device__ void operator()(std::int64_t) const { dropped[0] = 0; }
};

struct Choices {
  const float* weights;
  const std::int32_t* experts;
  float* kept_weights;
  std::int32_t *kept, *dropped;
  __device__ void set(std::int64_t i, bool keeps) const {
    kept[i] = keeps ? 1 : 0;
    kept_weights[i] = keeps ? weights[i] : 0.0F;
    if (!keeps) atomicAdd(dropped, 1);  // integers, so that the order of the additions does not matter
  }
};

struct DropUnknown {
  Choices at;
  std::int64_t experts;
  FaultSlot* fault;
  __device__ void operator()(std::int64_t i) const {
    const std::int32_t expert = at.experts[i];
    if (expert >= 0 && expert < experts) return;
    report(fault, FaultSlot::expert, expert, i, experts);
    at.set(i, false);
  }
};

/// One thread for each expert of each sequence.
struct TakeInOrder {
  Choices at;
  std::int64_t experts, of_sequence, capacity;
  __device__ void operator()(std::int64_t sequence_and_expert) const {
    const std::int64_t begin = sequence_and_expert / experts * of_sequence;
    const auto own = static_cast<std::int32_t>(sequence_and_expert % experts);
    std::int64_t taken = 0;
    for (std::int64_t i = begin; i < begin + of_sequence; ++i)
      if (at.experts[i] == own) at.set(i, taken++ < capacity);
  }
};

struct MaskGradient {
  const float* d_kept_weights;
  const std::int32_t* kept;
  float* d_weights;
  __device__ void operator()(std::int64_t i) const { d_weights[i] = kept[i] == 0 ? 0.0F : d_kept_weights[i]; }
};

void apply_capacity(const ExecutionContext& context, const Tensor& weights, const Tensor& experts, const CapacityOptions& options,
                    const Tensor& kept_weights, const Tensor& kept, const Tensor& dropped) {
  constexpr const char* component = "kernels.apply_capacity";
  const Choices at{weights.as<float>(), experts.as<std::int32_t>(), kept_weights.as<float>(), kept.as<std::int32_t>(),
                   dropped.as<std::int32_t>()};
  for_each(context, component, 1, NoneDropped{at.dropped});
  for_each(context, component, experts.elements(), DropUnknown{at, options.experts, state_of(context).fault});
  for_each(context, component, options.sequences * options.experts,
           TakeInOrder{at, options.experts, experts.elements() / options.sequences, options.capacity});
}

void apply_capacity_input_gradient(const ExecutionContext& context, const Tensor& d_kept_weights, const Tensor& kept,
                                   const Tensor& d_weights) {
  for_each(context, "kernels.apply_capacity_input_gradient", kept.elements(),
           MaskGradient{d_kept_weights.as<float>(), kept.as<std::int32_t>(), d_weights.as<float>()});
}

const InTable in_table[] = {
    {Backend::cuda, table::apply_capacity, apply_capacity},
    {Backend::cuda, table::apply_capacity_input_gradient, apply_capacity_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda

#include "kernels/square_sum.hpp"

#include <algorithm>

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kSquareTensors = 64;  // per launch
constexpr int kSquareThreads = 512;
constexpr int kSquarePack = 4;
constexpr std::int64_t kSquareStep = kSquareThreads * kSquarePack;
constexpr std::int64_t kSquareParts = 256;  // maximum per tensor
constexpr std::int64_t kLeastPart = 8 * kSquareStep;
static_assert(kSquareParts == kThreads, "a thread for each part of a tensor");

struct SquarePlace {
  const float* x;
  std::int64_t elements, part;  // elements of a part
  unsigned first_part, parts;
  bool aligned;
};

struct SquareBatch {
  SquarePlace places[kSquareTensors];
  int count;
};
static_assert(sizeof(SquareBatch) < 4000, "kernel arguments");

// One block for each part of each tensor.
__global__ void __launch_bounds__(kSquareThreads) square_parts(SquareBatch batch, double* parts) {
  int which = 0;
  while (batch.places[which].first_part + batch.places[which].parts <= blockIdx.x) ++which;
  const SquarePlace& at = batch.places[which];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - at.first_part) * at.part;
  const std::int64_t end = begin + at.part < at.elements ? begin + at.part : at.elements;
  double sum = 0;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kSquarePack; i < end; i += kSquareStep) {
    float value[kSquarePack];
    if (at.aligned && end - i >= kSquarePack)
      load_pack<true, kSquarePack>(at.x + i, end - i, value);
    else
      load_pack<false, kSquarePack>(at.x + i, end - i, value);
#pragma unroll
    for (int k = 0; k < kSquarePack; ++k) sum += static_cast<double>(value[k]) * static_cast<double>(value[k]);
  }
  sum = block_sum<kSquareThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// One block for each tensor.
__global__ void __launch_bounds__(kThreads) square_totals(SquareBatch batch, const double* parts, double* sums) {
  const SquarePlace& at = batch.places[blockIdx.x];
  const double sum = block_sum<kThreads>(threadIdx.x < at.parts ? parts[at.first_part + threadIdx.x] : 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums) {
  constexpr const char* component = "kernels.square_sums";
  double* parts = state_of(context).parts;
  for (std::size_t begin = 0; begin < tensors.size();) {
    SquareBatch batch = {};
    unsigned blocks = 0;
    while (begin + static_cast<std::size_t>(batch.count) < tensors.size() && batch.count < kSquareTensors) {
      const Tensor& x = tensors[begin + static_cast<std::size_t>(batch.count)];
      // Parts depend only on the size, so that a tensor's sum has the same bits whatever tensors it is launched with.
      const std::int64_t elements = x.elements();
      const std::int64_t part =
          std::max((elements + kSquareParts * kSquareStep - 1) / (kSquareParts * kSquareStep) * kSquareStep, kLeastPart);
      const auto count = static_cast<unsigned>((elements + part - 1) / part);
      if (blocks + count > kSumParts) break;
      batch.places[batch.count++] = {x.as<float>(), elements, part, blocks, count, packs_aligned({x.data})};
      blocks += count;
    }
    if (blocks > 0) launch(context, component, square_parts, dim3(blocks), dim3(kSquareThreads), 0, batch, parts);
    launch(context, component, square_totals, dim3(static_cast<unsigned>(batch.count)), dim3(kThreads), 0, batch, parts,
           sums.as<double>() + begin);
    begin += static_cast<std::size_t>(batch.count);
  }
}

const InTable in_table[] = {
    {Backend::cuda, table::square_sums, square_sums},
};

}  // namespace
}  // namespace millrace::kernels::cuda

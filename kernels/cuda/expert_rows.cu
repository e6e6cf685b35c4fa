#include "kernels/expert_rows.hpp"

#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kRowThreads = 128;  // of a token's rows
constexpr int kSortWarps = kThreads / 32;

struct SortByExpert {
  const std::int32_t* experts;
  std::int32_t* places;
  std::int32_t* offsets;
  std::int64_t choices, count;  // of experts
  FaultSlot* fault;
};

// One block for each expert: offsets[e + 1] is the number of its choices. The first one also looks for experts that do not exist; their
// choices have no row.
__global__ void __launch_bounds__(kThreads) count_choices(SortByExpert at) {
  const std::int32_t own = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < at.choices; i += kThreads) {
    const std::int32_t expert = at.experts[i];
    if (expert == own) ++mine;
    if (own == 0 && (expert < 0 || expert >= at.count)) {
      report(at.fault, FaultSlot::expert, expert, i, at.count);
      at.places[i] = -1;
    }
  }
  const std::int32_t all = block_sum<kThreads>(mine);
  if (threadIdx.x != 0) return;
  at.offsets[own + 1] = all;
  if (own == 0) at.offsets[0] = 0;
}

// One warp turns the numbers into offsets, 32 at a time.
__global__ void __launch_bounds__(32) sum_offsets(std::int32_t* offsets, std::int64_t count) {
  const int lane = static_cast<int>(threadIdx.x);
  std::int32_t before = 0;
  for (std::int64_t begin = 0; begin < count; begin += 32) {
    const std::int64_t e = begin + lane;
    std::int32_t sum = e < count ? offsets[e + 1] : 0;
    for (int distance = 1; distance < 32; distance *= 2) {
      const std::int32_t other = __shfl_up_sync(0xffffffffU, sum, static_cast<unsigned>(distance));
      if (lane >= distance) sum += other;
    }
    if (e < count) offsets[e + 1] = before + sum;
    before += __shfl_sync(0xffffffffU, sum, 31);
  }
}

// One block for each expert: it takes a choice per thread at a time, in order, and a choice's place follows from the number of its expert's
// choices before it.
__global__ void __launch_bounds__(kThreads) place_choices(SortByExpert at) {
  __shared__ std::int32_t warps[kSortWarps];
  const std::int32_t own = static_cast<std::int32_t>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t row = at.offsets[own];
  for (std::int64_t begin = 0; begin < at.choices; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const bool chosen = i < at.choices && at.experts[i] == own;
    const unsigned found = __ballot_sync(0xffffffffU, chosen ? 1 : 0);
    if (lane == 0) warps[warp] = __popc(found);
    __syncthreads();
    std::int32_t before = __popc(found & ((1U << lane) - 1U)), all = 0;
    for (int other = 0; other < kSortWarps; ++other) {
      if (other < warp) before += warps[other];
      all += warps[other];
    }
    if (chosen) at.places[i] = row + before;
    row += all;
    __syncthreads();  // before `warps` changes
  }
}

struct TokenRows {
  const std::int32_t* places;
  const float* weights;  // or nullptr
  std::int64_t chosen, width, rows;
  FaultSlot* fault;

  /// The row of a choice; −1 if it has none.
  __device__ std::int64_t row_of(std::int64_t choice) const {
    const std::int32_t place = places[choice];
    return place >= 0 && place < rows ? place : -1;
  }
  __device__ void report_places(std::int64_t token) const {
    for (std::int64_t choice = token * chosen; choice < (token + 1) * chosen; ++choice)
      if (row_of(choice) < 0) report(fault, FaultSlot::place, places[choice], choice, rows);
  }
};

TokenRows token_rows(const ExecutionContext& context, const Tensor& places, const Tensor* weights, std::int64_t width) {
  return {places.as<std::int32_t>(), weights == nullptr ? nullptr : weights->as<float>(), places.shape[1], width, places.elements(),
          state_of(context).fault};
}

// One block for each token.
template <bool Whole, class T>
__global__ void __launch_bounds__(kRowThreads) gather_token(TokenRows at, const T* x, T* rows) {
  constexpr int n = kPack<T>;
  const std::int64_t token = blockIdx.x, first = token * at.chosen;
  if (threadIdx.x == 0) at.report_places(token);
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * n; d < at.width; d += kRowThreads * n) {
    float value[n];
    load_pack<Whole, n>(x + token * at.width + d, at.width - d, value);
    for (std::int64_t choice = first; choice < first + at.chosen; ++choice) {
      const std::int64_t row = at.row_of(choice);
      if (row < 0) continue;
      float result[n];
#pragma unroll
      for (int i = 0; i < n; ++i) result[i] = at.weights == nullptr ? value[i] : at.weights[choice] * value[i];
      store_pack<Whole, n>(rows + row * at.width + d, at.width - d, result);
    }
  }
}

template <bool Whole, class T>
__global__ void __launch_bounds__(kRowThreads) combine_token(TokenRows at, const T* rows, T* y) {
  constexpr int n = kPack<T>;
  const std::int64_t token = blockIdx.x, first = token * at.chosen;
  if (threadIdx.x == 0) at.report_places(token);
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * n; d < at.width; d += kRowThreads * n) {
    float sum[n] = {};
    for (std::int64_t choice = first; choice < first + at.chosen; ++choice) {
      const std::int64_t row = at.row_of(choice);
      if (row < 0) continue;
      float value[n];
      load_pack<Whole, n>(rows + row * at.width + d, at.width - d, value);
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += at.weights == nullptr ? value[i] : at.weights[choice] * value[i];
    }
    store_pack<Whole, n>(y + token * at.width + d, at.width - d, sum);
  }
}

// A warp or a block for each choice.
template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) multiply_rows(TokenRows at, const T* x, const T* rows, float* products) {
  constexpr int n = kPack<T>;
  const std::int64_t choice = row_of_lanes<Lanes>();
  if (choice >= at.rows) return;  // either all lanes of a choice exit or none
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const std::int64_t token = choice / at.chosen, row = at.row_of(choice);
  if (lane == 0 && row < 0) report(at.fault, FaultSlot::place, at.places[choice], choice, at.rows);
  float sum = 0;
  for (std::int64_t d = lane * n; row >= 0 && d < at.width; d += Lanes * n) {
    float left[n], right[n];
    load_pack<Whole, n>(x + token * at.width + d, at.width - d, left);
    load_pack<Whole, n>(rows + row * at.width + d, at.width - d, right);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += left[i] * right[i];
  }
  sum = row_sum<Lanes>(sum);
  if (lane == 0) products[choice] = sum;
}

void sort_by_expert(const ExecutionContext& context, const Tensor& experts, const Tensor& places, const Tensor& offsets) {
  constexpr const char* component = "kernels.sort_by_expert";
  const SortByExpert at{experts.as<std::int32_t>(), places.as<std::int32_t>(), offsets.as<std::int32_t>(),
                        experts.elements(),         offsets.shape[0] - 1,      state_of(context).fault};
  const dim3 blocks(static_cast<unsigned>(at.count));
  launch(context, component, count_choices, blocks, dim3(kThreads), 0, at);
  launch(context, component, sum_offsets, dim3(1), dim3(32), 0, at.offsets, at.count);
  if (at.choices > 0) launch(context, component, place_choices, blocks, dim3(kThreads), 0, at);
}

template <class T>
bool whole_packs(std::int64_t width, const Tensor& a, const Tensor& b) {
  return width % kPack<T> == 0 && packs_aligned({a.data, b.data});
}

void gather_rows(const ExecutionContext& context, const Tensor& x, const Tensor& places, const Tensor* weights, const Tensor& rows) {
  const std::int64_t tokens = x.shape[0], width = x.shape[1];
  if (tokens == 0) return;
  with_type(x.dtype, [&]<class T>(T) {
    launch(context, "kernels.gather_rows", whole_packs<T>(width, x, rows) ? gather_token<true, T> : gather_token<false, T>,
           dim3(blocks_of(tokens, 1)), dim3(kRowThreads), 0, token_rows(context, places, weights, width), x.as<T>(), rows.as<T>());
  });
}

void combine_rows(const ExecutionContext& context, const Tensor& rows, const Tensor& places, const Tensor* weights, const Tensor& y) {
  const std::int64_t tokens = y.shape[0], width = y.shape[1];
  if (tokens == 0) return;
  with_type(y.dtype, [&]<class T>(T) {
    launch(context, "kernels.combine_rows", whole_packs<T>(width, rows, y) ? combine_token<true, T> : combine_token<false, T>,
           dim3(blocks_of(tokens, 1)), dim3(kRowThreads), 0, token_rows(context, places, weights, width), rows.as<T>(), y.as<T>());
  });
}

void row_products(const ExecutionContext& context, const Tensor& x, const Tensor& rows, const Tensor& places, const Tensor& products) {
  const std::int64_t width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(places.elements(), width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      launch(context, "kernels.row_products",
             whole_packs<T>(width, x, rows) ? multiply_rows<Lanes, true, T> : multiply_rows<Lanes, false, T>, dim3(blocks), dim3(kThreads),
             0, token_rows(context, places, nullptr, width), x.as<T>(), rows.as<T>(), products.as<float>());
    });
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::sort_by_expert, sort_by_expert},
    {Backend::cuda, table::gather_rows, gather_rows},
    {Backend::cuda, table::combine_rows, combine_rows},
    {Backend::cuda, table::row_products, row_products},
};

}  // namespace
}  // namespace millrace::kernels::cuda

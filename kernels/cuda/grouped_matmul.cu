#include "kernels/grouped_matmul.hpp"

#include "kernels/base/check.hpp"
#include "kernels/cuda/grouped_matmul_hopper.hpp"
#include "kernels/cuda/groups.cuh"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

// A block computes a tile of c, sixteen elements per thread, and reads both operands through shared memory, kDepth terms at a time. Every
// element is summed by one thread, in order.
constexpr int kTile = 64;   // rows and columns of a tile of c
constexpr int kDepth = 16;  // terms between two barriers
constexpr int kSide = 16;   // the block is a square of threads
constexpr int kEach = kTile / kSide;
constexpr int kBlockThreads = kSide * kSide;

struct RowRange {
  std::int64_t group, begin, end;
};

/// Tile `index` of all groups, each of which is cut from its first row on. Without rows if there are not so many.
__device__ __forceinline__ RowRange find_tile(const Groups& groups, std::int64_t index) {
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < groups.count; ++e) {
    const std::int64_t end = groups.end(e, begin), tiles = (end - begin + kTile - 1) / kTile;
    if (index < tiles) {
      const std::int64_t first = begin + index * kTile;
      return {e, first, first + kTile < end ? first + kTile : end};
    }
    index -= tiles;
    begin = end;
  }
  return {0, 0, 0};
}

/// The sums of thread (x, y): those of rows y, y + 16, … and columns x, x + 16, … of the tile.
struct Sums {
  float at[kEach][kEach];

  /// Adds the next kDepth terms.
  __device__ __forceinline__ void add(int x, int y, const float (&left)[kTile][kDepth + 1], const float (&right)[kTile][kDepth + 1]) {
    for (int term = 0; term < kDepth; ++term) {
      float a[kEach], b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        a[i] = left[y + i * kSide][term];
        b[i] = right[x + i * kSide][term];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) at[i][j] += a[i] * b[j];
    }
  }
};

template <class T, class Result>
struct RowsTask {
  const T *a, *b;
  Result* c;
  const float* bias;  // null: none
  std::int64_t n, k, experts;
  bool transpose_b;
  Groups groups;
};

template <class T, class Result>
__global__ void __launch_bounds__(kBlockThreads) grouped_rows(RowsTask<T, Result> task) {
  __shared__ float left[kTile][kDepth + 1], right[kTile][kDepth + 1];
  const int thread = static_cast<int>(threadIdx.x), x = thread % kSide, y = thread / kSide;
  if (blockIdx.x == 0 && blockIdx.y == 0)
    for (std::int64_t e = thread; e <= task.groups.count; e += kBlockThreads) task.groups.check(e);
  const RowRange tile = find_tile(task.groups, blockIdx.x);
  if (tile.begin == tile.end) return;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t expert = tile.group % task.experts;
  const T* const b = task.b + expert * task.k * task.n;
  Sums sums = {};
  for (std::int64_t first = 0; first < task.k; first += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kBlockThreads) {
      const int line = i / kDepth, term = i % kDepth;
      const bool inside = tile.begin + line < tile.end && first + term < task.k;
      left[line][term] = inside ? load(task.a + (tile.begin + line) * task.k + first + term) : 0.0F;
      // Neighbouring threads read neighbouring elements of b, which are those of a column if b is transposed.
      const int column = task.transpose_b ? line : i % kTile, depth = task.transpose_b ? term : i / kTile;
      const std::int64_t n = first_column + column, k = first + depth;
      right[column][depth] = n < task.n && k < task.k ? load(b + (task.transpose_b ? n * task.k + k : k * task.n + n)) : 0.0F;
    }
    __syncthreads();
    sums.add(x, y, left, right);
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t row = tile.begin + y + i * kSide, column = first_column + x + j * kSide;
      if (row >= tile.end || column >= task.n) continue;
      const float added = task.bias == nullptr ? 0.0F : task.bias[expert * task.n + column];
      store(task.c + row * task.n + column, sums.at[i][j] + added);
    }
}

template <class T>
struct GradientTask {
  const T *a, *b;
  float* c;
  std::int64_t m, n;
  Groups groups;
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads) grouped_gradient(GradientTask<T> task) {
  __shared__ float left[kTile][kDepth + 1], right[kTile][kDepth + 1];
  const int thread = static_cast<int>(threadIdx.x), x = thread % kSide, y = thread / kSide;
  const std::int64_t expert = blockIdx.z;
  if (blockIdx.x == 0 && blockIdx.y == 0 && thread < 2) task.groups.check(expert + thread);
  const std::int64_t begin = task.groups.begin(expert), end = task.groups.end(expert, begin);
  if (begin == end) return;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile,
                     first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  Sums sums = {};
  for (std::int64_t first = begin; first < end; first += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kBlockThreads) {
      const int line = i % kTile, term = i / kTile;
      const bool inside = first + term < end;
      const std::int64_t row = first_row + line, column = first_column + line;
      left[line][term] = inside && row < task.m ? load(task.a + (first + term) * task.m + row) : 0.0F;
      right[line][term] = inside && column < task.n ? load(task.b + (first + term) * task.n + column) : 0.0F;
    }
    __syncthreads();
    sums.add(x, y, left, right);
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t row = first_row + y + i * kSide, column = first_column + x + j * kSide;
      if (row < task.m && column < task.n) task.c[(expert * task.m + row) * task.n + column] += sums.at[i][j];
    }
}

/// One thread for each element of c.
template <class T>
struct BiasGradient {
  const T* a;
  float* c;
  std::int64_t n;
  Groups groups;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t expert = i / n, column = i % n;
    if (column == 0) {
      groups.check(expert);
      groups.check(expert + 1);
    }
    const std::int64_t begin = groups.begin(expert), end = groups.end(expert, begin);
    float sum = 0;
    for (std::int64_t row = begin; row < end; ++row) sum += load(a + row * n + column);
    if (begin < end) c[i] += sum;
  }
};

void grouped_matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                    const GroupedMatmulOptions& options, Scratch /*scratch*/, const Tensor* bias) {
  constexpr const char* component = "kernels.grouped_matmul";
  MILLRACE_CHECK(!options.packed_b, ExitCode::internal, component, "a packed operand on {}, expected a row-major one",
                 to_string(context.device()));
  if (grouped_matmul_on_hopper(context, a, b, offsets, c, options, bias)) return;
  const std::int64_t rows = a.shape[0], n = c.shape[1];
  // Each group has at most one tile that is not whole.
  const std::int64_t tiles = rows / kTile + offsets.shape[0] - 1;
  with_type(a.dtype, [&]<class T>(T) {
    with_type(c.dtype, [&]<class Result>(Result) {
      const RowsTask<T, Result> task{a.as<T>(),
                                     b.as<T>(),
                                     c.as<Result>(),
                                     bias == nullptr ? nullptr : bias->as<float>(),
                                     n,
                                     a.shape[1],
                                     b.shape[0],
                                     options.transpose_b,
                                     groups_of(context, offsets, rows)};
      launch(context, component, grouped_rows<T, Result>, dim3(blocks_of(tiles, 1), blocks_of(n, kTile)), dim3(kBlockThreads), 0, task);
    });
  });
}

void grouped_weight_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                             Scratch /*scratch*/) {
  constexpr const char* component = "kernels.grouped_weight_gradient";
  if (grouped_weight_gradient_on_hopper(context, a, b, offsets, c)) return;
  const std::int64_t experts = c.shape[0], m = c.shape[1], n = c.shape[2];
  with_type(a.dtype, [&]<class T>(T) {
    for (std::int64_t source = 0; source * experts + 1 < offsets.shape[0]; ++source) {
      const Groups groups = groups_of_source(context, offsets, a.shape[0], experts, source);
      const GradientTask<T> task{a.as<T>(), b.as<T>(), c.as<float>(), m, n, groups};
      launch(context, component, grouped_gradient<T>, dim3(blocks_of(n, kTile), blocks_of(m, kTile), static_cast<unsigned>(experts)),
             dim3(kBlockThreads), 0, task);
    }
  });
}

void grouped_bias_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& offsets, const Tensor& c) {
  with_type(a.dtype, [&]<class T>(T) {
    for (std::int64_t source = 0; source * c.shape[0] + 1 < offsets.shape[0]; ++source) {
      const Groups groups = groups_of_source(context, offsets, a.shape[0], c.shape[0], source);
      for_each(context, "kernels.grouped_bias_gradient", c.elements(), BiasGradient<T>{a.as<T>(), c.as<float>(), c.shape[1], groups});
    }
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::grouped_matmul, grouped_matmul},
    {Backend::cuda, table::grouped_weight_gradient, grouped_weight_gradient},
    {Backend::cuda, table::grouped_bias_gradient, grouped_bias_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda

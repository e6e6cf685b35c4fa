#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/groups.cuh"
#include "kernels/cuda/hopper_ring.cuh"
#include "kernels/cuda/launch.cuh"

/// The experts' products of bf16 operands on the tensor cores of a Hopper GPU (compute capability 9.0): c[r] = a[r] · op(b[e]), and
/// c[e] += a_eᵀ · b_e.
///
/// A block has three warpgroups. One thread of the first one copies stages of both operands into shared memory, 64 terms each, in a ring of
/// stages; the other two multiply, 64 rows of a tile of 128 rows each. There are as many blocks as processors (P), and a block computes
/// every P-th tile, so that the operands of a tile are copied while the sums of the previous one are stored.
///
/// Order of sums: a warpgroup adds the terms of an element 16 at a time, from the first one on, all into the same register. The instruction
/// treats every row and every column of a tile alike. So neither the row of a tile in which a row lies nor the other rows matter, nor the
/// tile's width, which changes how many columns an instruction has but not what it adds to one of them. Terms behind the last one are zeros
/// in both operands.
namespace millrace::kernels::cuda::hopper {

constexpr int kTileRows = 128;     // of a tile of the result
constexpr int kGroupRows = 64;     // of a warpgroup
constexpr int kStageTerms = 64;    // one line of a k-major operand
constexpr int kBandRows = 16;      // tiles above each other that are computed before the next ones to the right
constexpr int kMultipliers = 256;  // threads that multiply
constexpr int kBlockThreads = 128 + kMultipliers;

/// Stages of operands in shared memory: the left one, 16 KiB, then the right one, both made of boxes of 64 lines.
template <int Width>
struct Stages {
  static constexpr int kLeftBytes = kTileRows * kLineBytes, kBytes = kLeftBytes + Width * kLineBytes, kBoxes = kBytes / kBoxBytes;
  static constexpr int kCount = Width == 256 ? 4 : 6;
  static constexpr int kSharedBytes = kCount * kBytes + 1024;  // the first stage begins at a multiple of 1024
};

struct Task {
  CUtensorMap a, b;
  void* c;
  const float* bias;            // of grouped rows; null: none
  int m, n, k;                  // m: rows of c[e], of a gradient; k: of grouped rows
  int experts;                  // the groups of several sources are more
  int row_tiles, column_tiles;  // of each expert's gradient; column_tiles also of grouped rows
  Groups groups;
};

/// A tile of the result, and the terms of its sums.
struct Tile {
  int expert;
  int row, rows;    // the first row, and the number of rows from it on that are stored, at most 128 of them
  int column;       // the first column
  int first, last;  // terms
};

/// The place of tile `index` among rows x columns of them: bands of kBandRows rows, from left to right in each, so that the tiles that are
/// computed at the same time read few rows and few columns, which stay in the L2 cache.
__device__ __forceinline__ void place_in_bands(int index, int rows, int columns, int& row, int& column) {
  const int band = index / (kBandRows * columns), inside = index - band * kBandRows * columns,
            height = min(kBandRows, rows - band * kBandRows);
  column = inside / height;
  row = band * kBandRows + inside - column * height;
}

/// Makes four words of four neighbouring lanes each a word of one lane each: lane q gets word q of all of them, in their order.
__device__ __forceinline__ void transpose_words(std::uint32_t (&words)[4]) {
  const auto exchange = [](std::uint32_t& x, std::uint32_t& y, int distance) {
    const bool upper = (threadIdx.x & distance) != 0;
    const std::uint32_t received = __shfl_xor_sync(0xffffffffU, upper ? x : y, distance);
    if (upper)
      x = received;
    else
      y = received;
  };
  exchange(words[0], words[1], 1);
  exchange(words[2], words[3], 1);
  exchange(words[0], words[2], 2);
  exchange(words[1], words[3], 2);
}

// -- c[r] = a[r] · op(b[e]) ---------------------------------------------------------------------------------------------------------------

/// Rows of a are k-major; b[e] is k-major if it is transposed, [N, K].
template <bool TransposeB, class Result, int Width>
struct GroupedRows {
  static constexpr Major kLeft = Major::k, kRight = TransposeB ? Major::k : Major::mn;
  static constexpr int kWidth = Width;
  static constexpr bool kTermsAreRows = false;

  /// The tiles of all groups, each of which is cut from its first row on. Tiles must be asked for in increasing order.
  class Tiles {
   public:
    __device__ __forceinline__ explicit Tiles(const Task& task) : task_(task), end_(static_cast<int>(task.groups.end(0, 0))) {}

    /// False if there are not so many.
    __device__ __forceinline__ bool find(int index, Tile& tile) {
      for (;;) {
        const int rows = (end_ - begin_ + kTileRows - 1) / kTileRows, tiles = rows * task_.column_tiles, inside = index - before_;
        if (inside < tiles) {
          int row = 0, column = 0;
          place_in_bands(inside, rows, task_.column_tiles, row, column);
          const int first = begin_ + row * kTileRows;
          tile = {group_ % task_.experts, first, end_ - first, column * Width, 0, task_.k};
          return true;
        }
        before_ += tiles;
        if (++group_ == static_cast<int>(task_.groups.count)) return false;
        begin_ = end_;
        end_ = static_cast<int>(task_.groups.end(group_, begin_));
      }
    }

   private:
    const Task& task_;
    int group_ = 0, begin_ = 0, end_;  // the group that is looked at
    int before_ = 0;                   // tiles of the groups before it
  };

  static __device__ __forceinline__ int expert_of_b(const Tile& tile) { return tile.expert; }

  /// Stores the rows of a warpgroup that begin `offset` rows further than the tile, this lane's first row being `row` and its first column
  /// `column` of them.
  static __device__ __forceinline__ void store(const Task& task, const Tile& tile, const float (&sums)[Width / 2], int row, int lane) {
    auto* const c = static_cast<Result*>(task.c);
    const float* const bias = task.bias == nullptr ? nullptr : task.bias + static_cast<std::int64_t>(tile.expert) * task.n;
    const auto stored = [&](int half) { return row + 8 * half < tile.rows; };
    const auto row_of_c = [&](int half) { return c + static_cast<std::int64_t>(tile.row + row + 8 * half) * task.n; };
#pragma unroll
    for (int part = 0; part < Width / 32; ++part) {  // four instances of eight columns
      const int first = tile.column + part * 32;
      float added[4][2] = {};
      if (bias != nullptr) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = first + j * 8 + lane % 4 * 2;
          if (column < task.n) {
            added[j][0] = bias[column];
            added[j][1] = bias[column + 1];
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* const at = sums + part * 16 + half * 2;
        if constexpr (sizeof(Result) == 2) {
          std::uint32_t words[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) words[j] = rounded_pair(at[j * 4] + added[j][0], at[j * 4 + 1] + added[j][1]);
          transpose_words(words);
          const int column = first + lane % 4 * 8;
          if (stored(half) && column < task.n)
            *reinterpret_cast<uint4*>(row_of_c(half) + column) = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int column = first + j * 8 + lane % 4 * 2;
            if (stored(half) && column < task.n)
              *reinterpret_cast<float2*>(row_of_c(half) + column) = make_float2(at[j * 4] + added[j][0], at[j * 4 + 1] + added[j][1]);
          }
        }
      }
    }
  }
};

// -- c[e] += a_eᵀ · b_e -------------------------------------------------------------------------------------------------------------------

/// Rows of a group are the terms, so that both operands are mn-major.
template <int Width>
struct GroupedGradient {
  static constexpr Major kLeft = Major::mn, kRight = Major::mn;
  static constexpr int kWidth = Width;
  static constexpr bool kTermsAreRows = true;

  class Tiles {
   public:
    __device__ __forceinline__ explicit Tiles(const Task& task) : task_(task) {}

    __device__ __forceinline__ bool find(int index, Tile& tile) const {
      const int tiles = task_.row_tiles * task_.column_tiles, expert = index / tiles;
      if (expert >= static_cast<int>(task_.groups.count)) return false;
      int row = 0, column = 0;
      place_in_bands(index - expert * tiles, task_.row_tiles, task_.column_tiles, row, column);
      const std::int64_t begin = task_.groups.begin(expert), end = task_.groups.end(expert, begin);
      tile = {expert, row * kTileRows, task_.m - row * kTileRows, column * Width, static_cast<int>(begin), static_cast<int>(end)};
      return true;
    }

   private:
    const Task& task_;
  };

  static __device__ __forceinline__ int expert_of_b(const Tile& /*tile*/) { return 0; }

  static __device__ __forceinline__ void store(const Task& task, const Tile& tile, const float (&sums)[Width / 2], int row, int lane) {
    float* const c = static_cast<float*>(task.c) + static_cast<std::int64_t>(tile.expert) * task.m * task.n;
    const auto at = [&](int j, int half) {
      return reinterpret_cast<float2*>(c + static_cast<std::int64_t>(tile.row + row + 8 * half) * task.n + tile.column + j * 8 +
                                       lane % 4 * 2);
    };
    const auto stored = [&](int j, int half) { return row + 8 * half < tile.rows && tile.column + j * 8 < task.n; };
    constexpr int together = 8;  // loads that are under way at a time, for each of two rows
#pragma unroll
    for (int first = 0; first < Width / 8; first += together) {
      float2 values[together][2];
#pragma unroll
      for (int i = 0; i < together; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (stored(first + i, half)) values[i][half] = *at(first + i, half);
#pragma unroll
      for (int i = 0; i < together; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* const sum = sums + (first + i) * 4 + half * 2;
          if (stored(first + i, half)) *at(first + i, half) = make_float2(values[i][half].x + sum[0], values[i][half].y + sum[1]);
        }
    }
  }
};

// -- the kernel ---------------------------------------------------------------------------------------------------------------------------

/// Copies `Lines` rows or columns from `first` on, 64 terms from `term` on.
template <Major Order, int Lines>
__device__ __forceinline__ void copy_operand(std::uint32_t to, const CUtensorMap& map, std::uint64_t* barrier, int first, int term,
                                             int expert) {
  if constexpr (Order == Major::k) {
    copy_box(to, map, barrier, term, first, expert);
  } else {
#pragma unroll
    for (int i = 0; i < Lines / kLine; ++i) copy_box(to + i * kBoxBytes, map, barrier, first + i * kLine, term, expert);
  }
}

/// Replaces the terms of a stage from `first` on, which are rows of other groups, by zeros in both operands: either may hold infinities or
/// NaNs, of which the product with zero is NaN. Both operands are mn-major, so that a term is one line in each box; the permutation by
/// which lines are swizzled stays within a line, and the lines from `first` on are one range of bytes. All threads that multiply call it.
template <int Boxes>
__device__ __forceinline__ void clear_terms(unsigned char* stage, int first) {
  const int pieces = (kStageTerms - first) * (kLineBytes / 16);
#pragma unroll
  for (int box = 0; box < Boxes; ++box)
    for (int i = static_cast<int>(threadIdx.x) - (kBlockThreads - kMultipliers); i < pieces; i += kMultipliers)
      reinterpret_cast<uint4*>(stage + box * kBoxBytes + first * kLineBytes)[i] = make_uint4(0, 0, 0, 0);
  fence_for_asynchronous_access();
  wait_for_threads<1, kMultipliers>();
}

/// Work: GroupedRows or GroupedGradient. The body exists for compute capability 9.0a alone, which shows in the kernel's static shared
/// memory.
template <class Work>
__global__ void __launch_bounds__(kBlockThreads, 1) grouped_product(const __grid_constant__ Task task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = Stages<Work::kWidth>;
  __shared__ std::uint64_t filled[Memory::kCount], emptied[Memory::kCount];
  unsigned char* const stages = tile_memory();
  const int thread = static_cast<int>(threadIdx.x);
  // The index of the warpgroup, from one lane of the warp, so that the compiler knows that branches on it do not diverge.
  const int warpgroup = __shfl_sync(0xffffffffU, thread / 128, 0);
  if (thread == 0) {
    prefetch(task.a);
    prefetch(task.b);
    for (int i = 0; i < Memory::kCount; ++i) {
      initialize_barrier(&filled[i], 1);
      initialize_barrier(&emptied[i], kMultipliers / 32);
    }
    fence_initialized_barriers();
  }
  __syncthreads();

  typename Work::Tiles tiles(task);
  Tile tile;
  Ring<Memory::kCount> ring;
  const int step = static_cast<int>(gridDim.x);
  if (warpgroup == 0) {
    give_registers_back<40>();
    if (blockIdx.x == 0 && thread >= 32)
      for (std::int64_t e = thread - 32; e <= task.groups.count; e += 96) task.groups.check(e);
    if (thread != 0) return;
    for (int index = static_cast<int>(blockIdx.x); tiles.find(index, tile); index += step)
      for (int term = tile.first; term < tile.last; term += kStageTerms) {
        std::uint64_t* const barrier = &filled[ring.stage];
        const std::uint32_t to = shared_address(stages) + ring.stage * Memory::kBytes;
        wait(&emptied[ring.stage], ring.parity ^ 1);
        arrive_and_expect(barrier, Memory::kBytes);
        copy_operand<Work::kLeft, kTileRows>(to, task.a, barrier, tile.row, term, 0);
        copy_operand<Work::kRight, Work::kWidth>(to + Memory::kLeftBytes, task.b, barrier, tile.column, term, Work::expert_of_b(tile));
        ring.advance();
      }
    return;
  }

  take_registers<232>();
  const int lane = thread % 32, first_row = (warpgroup - 1) * kGroupRows;
  // 64 rows of the left operand are a box in either order.
  const std::uint32_t left_address = shared_address(stages) + (warpgroup - 1) * kBoxBytes,
                      right_address = shared_address(stages) + Memory::kLeftBytes;
  const std::uint64_t left = descriptor<Work::kLeft>(left_address), right = descriptor<Work::kRight>(right_address);
  const auto release = [&](int stage) {
    if (lane == 0) arrive(&emptied[stage]);
  };
  for (int index = static_cast<int>(blockIdx.x); tiles.find(index, tile); index += step) {
    if (!Work::kTermsAreRows && first_row >= tile.rows) {  // all rows of this warpgroup are behind the group
      for (int term = tile.first; term < tile.last; term += kStageTerms) {
        wait(&filled[ring.stage], ring.parity);
        release(ring.stage);
        ring.advance();
      }
      continue;
    }
    if (tile.first == tile.last) continue;  // a group without rows leaves its gradient as it is
    float sums[Work::kWidth / 2];
    int previous = -1;  // the stage whose products may be under way
    for (int term = tile.first; term < tile.last; term += kStageTerms) {
      wait(&filled[ring.stage], ring.parity);
      if constexpr (Work::kTermsAreRows)
        if (tile.last - term < kStageTerms) clear_terms<Memory::kBoxes>(stages + ring.stage * Memory::kBytes, tile.last - term);
      const std::uint64_t offset = static_cast<std::uint64_t>(ring.stage) * (Memory::kBytes / 16);
      fence_products();
#pragma unroll
      for (int slice = 0; slice < kStageTerms / 16; ++slice)
        multiply<Work::kLeft, Work::kRight>(sums, left + offset + slice * slice_offset<Work::kLeft>,
                                            right + offset + slice * slice_offset<Work::kRight>, slice > 0 || previous >= 0);
      commit_products();
      wait_for_products<1>();
      if (previous >= 0) release(previous);
      previous = ring.stage;
      ring.advance();
    }
    wait_for_products<0>();
    release(previous);
    Work::store(task, tile, sums, first_row + thread / 32 % 4 * 16 + lane / 4, lane);
  }
#endif
}

/// The width of tiles for n columns and so many tiles of rows: 256 reads less of the operands for each product, 128 wastes less where few
/// columns are left over, and occupies more processors where there are few tiles.
inline int tile_width(std::int64_t row_tiles, std::int64_t n, int processors) {
  const std::int64_t narrow = (n + 127) / 128, wide = (n + 255) / 256;
  return narrow * 6 < wide * 2 * 5 || row_tiles * wide < processors ? 128 : 256;
}

/// Enqueues the product with `tiles` tiles at most.
template <class Work>
void launch_product(cudaStream_t lane, const char* component, int processors, std::int64_t tiles, const Task& task) {
  launch(lane, component, grouped_product<Work>, dim3(static_cast<unsigned>(std::min<std::int64_t>(tiles, processors))),
         dim3(kBlockThreads), Stages<Work::kWidth>::kSharedBytes, task);
}

}  // namespace millrace::kernels::cuda::hopper

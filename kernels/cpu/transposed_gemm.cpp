#include "kernels/cpu/transposed_gemm.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/matmul.hpp"
#include "kernels/cpu/matmul_primitive.hpp"
#include "kernels/cpu/panel_product_loops.hpp"
#include "kernels/cpu/thread_range.hpp"
#include "kernels/cpu/transpose_columns.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Number of tokens and rows transposed at a time: half a MiB, which the L2 cache holds beside the rows of c that they are added
/// to, and the product is still large enough.
constexpr std::int64_t kStretch = 512, kRows = 256;
/// The same for our own loops, which sum so many tokens at a time and copy b for each part of the rows.
constexpr std::int64_t kPanelStretch = kPanelDepth, kRowsOfPanels = 2 * kPanelRows;

struct Places {
  DType compute;
  bool widens;
  std::int64_t most_rows;
  std::int64_t stretch;  // all but the last
  std::size_t turned;    // bytes of a thread's transposed stretch
  std::size_t b;         // bytes of the widened stretch of b, which all threads share

  Places(const TransposedGemm& at, int threads) : compute(matmul_compute_dtype(at.operands)), widens(compute != at.operands) {
    const bool panels = part(at, {0, at.m}, at.k, true).by_panels();
    most_rows = panels ? kRowsOfPanels : kRows;
    stretch = std::min(at.k, panels ? kPanelStretch : kStretch);
    std::int64_t rows = 0;
    for (int thread = 0; thread < threads; ++thread)
      for_parts(thread_range(at.m, kShareGrain, thread, threads), most_rows, [&](IndexRange part) { rows = std::max(rows, part.size()); });
    turned = align_up(static_cast<std::size_t>(rows * stretch) * size_of(compute));
    b = widens ? align_up(static_cast<std::size_t>(stretch * at.n) * sizeof(float)) : 0;
  }

  [[nodiscard]] MatmulPart part(const TransposedGemm& at, IndexRange rows, std::int64_t length, bool accumulate) const {
    return {.m = rows.size(),
            .n = at.n,
            .k = length,
            .a_stride = length,
            .b_stride = at.n,
            .c_stride = at.n,
            .operands = compute,
            .result = DType::f32,
            .accumulate = accumulate};
  }
};

/// Largest scratch that oneDNN needs on any thread.
std::size_t product_scratch(const TransposedGemm& at, const Places& places, int threads) {
  const std::int64_t last = at.k - (at.k - 1) / places.stretch * places.stretch;
  std::size_t largest = 0;
  for (int thread = 0; thread < threads; ++thread) {
    for_parts(thread_range(at.m, kShareGrain, thread, threads), places.most_rows, [&](IndexRange rows) {
      for (const std::int64_t length : {places.stretch, last})
        for (const bool accumulate : {false, true})
          largest = std::max(largest, align_up(matmul_part_scratch_bytes(places.part(at, rows, length, accumulate))));
    });
  }
  return largest;
}

MatmulPart part_for_tiles(const TransposedGemm& at, IndexRange rows) {
  return {.m = rows.size(),
          .n = at.n,
          .k = at.k,
          .a_stride = at.m,
          .b_stride = at.n,
          .c_stride = at.n,
          .operands = DType::bf16,
          .result = DType::f32,
          .transpose_a = true,
          .accumulate = at.accumulate};
}

/// Products of tiles transpose a and pack b themselves, while they copy them to the caches. Each thread packs all of b for its rows of c,
/// part by part: sharing columns out instead, and so the packing, was slower, since each thread then transposes all of a.
void run_by_tiles(const TransposedGemm& at, const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c,
                  Scratch scratch) {
  context.team().run([&](int thread, int threads) {
    const IndexRange rows = thread_range(at.m, kShareGrain, thread, threads);
    if (rows.size() == 0) return;
    const MatmulPart part = part_for_tiles(at, rows);
    run_matmul_part(part, a.as<BFloat16>() + rows.begin, b.data, c.as<float>() + rows.begin * at.n, nullptr,
                    scratch.data() + static_cast<std::size_t>(thread) * align_up(matmul_part_scratch_bytes(part)));
  });
}

}  // namespace

bool TransposedGemm::suits(int threads) const { return k > 0 && n > 0 && m >= kShareGrain * threads; }

std::size_t TransposedGemm::scratch_bytes(int threads) const {
  if (multiplies_by_tiles(operands))
    return align_up(matmul_part_scratch_bytes(part_for_tiles(*this, {0, m}))) * static_cast<std::size_t>(threads);
  const Places places(*this, threads);
  return places.b + (places.turned + product_scratch(*this, places, threads)) * static_cast<std::size_t>(threads);
}

void TransposedGemm::run(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, Scratch scratch) const {
  if (multiplies_by_tiles(operands)) {
    check_scratch("kernels.matmul", scratch, scratch_bytes(context.threads()));
    return run_by_tiles(*this, context, a, b, c, scratch);
  }
  const Places places(*this, context.threads());
  const auto team = static_cast<std::size_t>(context.threads());
  check_scratch("kernels.matmul", scratch, places.b + places.turned * team);
  // A runtime count may need more of oneDNN's scratch than its capacity; oneDNN then allocates.
  const std::size_t product = (scratch.size() - places.b - places.turned * team) / team / kAlignment * kAlignment;
  // Adds the tokens from `first` on to the thread's `rows` of c. `right` points to b's rows from there.
  const auto add = [&](int thread, IndexRange rows, std::int64_t first, const std::byte* right) {
    std::byte* const turned = scratch.data() + places.b + (places.turned + product) * static_cast<std::size_t>(thread);
    const std::int64_t length = std::min(places.stretch, k - first);
    // Addressed as if from row 0 on: the part's rows begin at the thread's memory.
    std::byte* const row_0 = turned - static_cast<std::size_t>(rows.begin * length) * size_of(places.compute);
    transpose_columns(a.dtype, places.compute, a.data + static_cast<std::size_t>(first * m) * size_of(a.dtype), length, m, row_0, length,
                      rows.begin, rows.end);
    MatmulPart part = places.part(*this, rows, length, accumulate || first > 0);
    part.own_scratch = matmul_part_scratch_bytes(part) > product;
    run_matmul_part(part, turned, right, c.as<float>() + rows.begin * n, nullptr, turned + places.turned);
  };
  if (!places.widens) {
    return context.team().run([&](int thread, int threads) {
      for_parts(thread_range(m, kShareGrain, thread, threads), places.most_rows, [&](IndexRange rows) {
        for (std::int64_t first = 0; first < k; first += places.stretch)
          add(thread, rows, first, b.data + static_cast<std::size_t>(first * n) * size_of(places.compute));
      });
    });
  }
  // The threads widen a stretch of b together and use it while it is in the caches.
  for (std::int64_t first = 0; first < k; first += places.stretch) {
    const std::int64_t length = std::min(places.stretch, k - first);
    context.team().for_ranges(length * n, 4096, [&](std::int64_t begin, std::int64_t end) {
      pick_widen()(b.as<BFloat16>() + first * n, reinterpret_cast<float*>(scratch.data()), begin, end);
    });
    context.team().run([&](int thread, int threads) {
      for_parts(thread_range(m, kShareGrain, thread, threads), places.most_rows,
                [&](IndexRange rows) { add(thread, rows, first, scratch.data()); });
    });
  }
}

}  // namespace millrace::kernels::cpu

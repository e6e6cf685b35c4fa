#include "kernels/cpu/transposed_gemm.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/cpu/matmul_primitive.hpp"
#include "kernels/cpu/thread_range.hpp"
#include "kernels/cpu/transpose_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Number of tokens and rows that are transposed for oneDNN at a time: half a MiB, which the L2 cache holds beside the rows of c that they
/// are added to, and the product is still large enough.
constexpr std::int64_t kStretch = 512, kRows = 256;

/// Our loops transpose a and copy b themselves, part by part. Each thread copies all of b for its rows of c: sharing columns out instead
/// was slower, since each thread then transposes all of a.
MatmulPart part_for_our_loops(const TransposedGemm& at, IndexRange rows) {
  return {.m = rows.size(),
          .n = at.n,
          .k = at.k,
          .a_stride = at.m,
          .b_stride = at.n,
          .c_stride = at.n,
          .operands = at.operands,
          .result = DType::f32,
          .transpose_a = true,
          .accumulate = at.accumulate};
}

void run_by_our_loops(const TransposedGemm& at, const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c,
                      Scratch scratch) {
  context.team().run([&](int thread, int threads) {
    const IndexRange rows = thread_range(at.m, kShareGrain, thread, threads);
    if (rows.size() == 0) return;
    const MatmulPart part = part_for_our_loops(at, rows);
    run_matmul_part(
        part, a.data + static_cast<std::size_t>(rows.begin) * size_of(at.operands), b.data, c.as<float>() + rows.begin * at.n, nullptr,
        scratch.data() + static_cast<std::size_t>(thread) * align_up(matmul_part_scratch_bytes(part_for_our_loops(at, {0, at.m}))));
  });
}

/// A product by oneDNN of transposed rows.
MatmulPart part_for_onednn(const TransposedGemm& at, IndexRange rows, std::int64_t length, bool accumulate) {
  return {.m = rows.size(),
          .n = at.n,
          .k = length,
          .a_stride = length,
          .b_stride = at.n,
          .c_stride = at.n,
          .operands = at.operands,
          .result = DType::f32,
          .accumulate = accumulate};
}

/// Bytes of a thread's transposed stretch.
std::size_t turned_bytes(const TransposedGemm& at, int threads) {
  std::int64_t rows = 0;
  for (int thread = 0; thread < threads; ++thread)
    for_parts(thread_range(at.m, kShareGrain, thread, threads), kRows, [&](IndexRange part) { rows = std::max(rows, part.size()); });
  return align_up(static_cast<std::size_t>(rows * std::min(at.k, kStretch)) * size_of(at.operands));
}

/// Largest scratch that oneDNN needs on any thread.
std::size_t product_scratch(const TransposedGemm& at, int threads) {
  const std::int64_t stretch = std::min(at.k, kStretch), last = at.k - (at.k - 1) / stretch * stretch;
  std::size_t largest = 0;
  for (int thread = 0; thread < threads; ++thread) {
    for_parts(thread_range(at.m, kShareGrain, thread, threads), kRows, [&](IndexRange rows) {
      for (const std::int64_t length : {stretch, last})
        for (const bool accumulate : {false, true})
          largest = std::max(largest, align_up(matmul_part_scratch_bytes(part_for_onednn(at, rows, length, accumulate))));
    });
  }
  return largest;
}

bool by_our_loops(const TransposedGemm& at) { return part_for_our_loops(at, {0, at.m}).by_our_loops(); }

}  // namespace

bool TransposedGemm::suits(int threads) const { return k > 0 && n > 0 && m >= kShareGrain * threads; }

std::size_t TransposedGemm::scratch_bytes(int threads) const {
  if (by_our_loops(*this))
    return align_up(matmul_part_scratch_bytes(part_for_our_loops(*this, {0, m}))) * static_cast<std::size_t>(threads);
  return (turned_bytes(*this, threads) + product_scratch(*this, threads)) * static_cast<std::size_t>(threads);
}

void TransposedGemm::run(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, Scratch scratch) const {
  if (by_our_loops(*this)) {
    check_scratch("kernels.matmul", scratch, scratch_bytes(context.threads()));
    return run_by_our_loops(*this, context, a, b, c, scratch);
  }
  const std::size_t turned = turned_bytes(*this, context.threads()), team = static_cast<std::size_t>(context.threads());
  check_scratch("kernels.matmul", scratch, turned * team);
  // A runtime count may need more of oneDNN's scratch than its capacity; oneDNN then allocates.
  const std::size_t product = (scratch.size() - turned * team) / team / kAlignment * kAlignment;
  context.team().run([&](int thread, int threads) {
    std::byte* const own = scratch.data() + (turned + product) * static_cast<std::size_t>(thread);
    for_parts(thread_range(m, kShareGrain, thread, threads), kRows, [&](IndexRange rows) {
      for (std::int64_t first = 0; first < k; first += kStretch) {
        const std::int64_t length = std::min(kStretch, k - first);
        // Addressed as if from row 0 on: the part's rows begin at the thread's memory.
        pick_transpose_bf16()(a.as<BFloat16>() + first * m, length, m, reinterpret_cast<BFloat16*>(own) - rows.begin * length, length,
                              rows.begin, rows.end);
        MatmulPart part = part_for_onednn(*this, rows, length, accumulate || first > 0);
        part.own_scratch = matmul_part_scratch_bytes(part) > product;
        run_matmul_part(part, own, b.as<BFloat16>() + first * n, c.as<float>() + rows.begin * n, nullptr, own + turned);
      }
    });
  });
}

}  // namespace millrace::kernels::cpu

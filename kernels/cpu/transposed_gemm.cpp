#include "kernels/cpu/transposed_gemm.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/cpu/matmul_part.hpp"
#include "kernels/cpu/thread_range.hpp"

namespace millrace::kernels::cpu {
namespace {

MatmulPart part_of(const TransposedGemm& at, std::int64_t rows) {
  return {.m = rows,
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

std::size_t bytes_of_thread(const TransposedGemm& at) { return align_up(matmul_part_scratch_bytes(part_of(at, at.m))); }

}  // namespace

bool TransposedGemm::suits(int threads) const { return k > 0 && n > 0 && m >= kShareGrain * threads; }

std::size_t TransposedGemm::scratch_bytes(int threads) const { return bytes_of_thread(*this) * static_cast<std::size_t>(threads); }

void TransposedGemm::run(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, Scratch scratch) const {
  check_scratch("kernels.matmul", scratch, scratch_bytes(context.threads()));
  context.team().run([&](int thread, int threads) {
    const IndexRange rows = thread_range(m, kShareGrain, thread, threads);
    if (rows.size() == 0) return;
    run_matmul_part(part_of(*this, rows.size()), a.data + static_cast<std::size_t>(rows.begin) * size_of(operands), b.data,
                    c.as<float>() + rows.begin * n, nullptr, scratch.data() + static_cast<std::size_t>(thread) * bytes_of_thread(*this));
  });
}

}  // namespace millrace::kernels::cpu

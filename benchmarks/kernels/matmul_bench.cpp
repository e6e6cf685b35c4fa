// matmul_bench [threads]: the matrix products of a decoder layer, compared with direct calls to oneDNN on the same operands with
// as many OpenMP threads.

#include <fmt/format.h>

#include "benchmarks/kernels/filled.hpp"
#include "benchmarks/kernels/plain_matmul.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/matmul.hpp"
#include "kernels/packing.hpp"

namespace {

using namespace millrace::kernels;
using millrace::benchmarks::PlainMatmul;
using millrace::benchmarks::set_openmp_threads;

struct Case {
  const char* name;
  std::int64_t m, n, k;
  DType operands, result;
  MatmulOptions options;
};

struct Operands {
  Tensor a, b, c;
  Buffer memory_of_a, memory_of_b, memory_of_c;

  explicit Operands(const Case& test)
      : a{nullptr, test.operands, test.options.transpose_a ? Shape{test.k, test.m} : Shape{test.m, test.k}},
        b{nullptr, test.operands, test.options.transpose_b ? Shape{test.n, test.k} : Shape{test.k, test.n}},
        c{nullptr, test.result, {test.m, test.n}},
        memory_of_a(a.bytes()),
        memory_of_b(b.bytes()),
        memory_of_c(c.bytes()) {
    a.data = memory_of_a.data();
    b.data = memory_of_b.data();
    c.data = memory_of_c.data();
    for (const Tensor* tensor : {&a, &b}) millrace::benchmarks::fill(*tensor);
  }
};

void measure(const Case& test, ThreadTeam& team) {
  const Operands operands(test);
  const Buffer scratch(matmul_scratch_bytes(operands.a.shape, operands.b.shape, test.operands, test.result, test.options, team.size()));
  const ExecutionContext context(team);
  const double flops = 2.0 * static_cast<double>(test.m) * static_cast<double>(test.n) * static_cast<double>(test.k);
  set_openmp_threads(1);
  const Buffer packed(test.options.packed_b ? packed_bytes(test.k, test.n, test.operands) : 0);
  Tensor b = operands.b;
  if (test.options.packed_b) {
    pack(context, operands.b, test.options.transpose_b, packed.data());
    b.data = packed.data();
  }
  const double ours = millrace::benchmarks::seconds_of([&] { matmul(context, operands.a, b, operands.c, test.options, scratch.bytes()); });
  set_openmp_threads(team.size());
  PlainMatmul plain(operands.a, operands.b, operands.c, test.options);
  const double theirs = millrace::benchmarks::seconds_of([&] { plain.run(); });
  set_openmp_threads(1);
  fmt::print("{:<22} {:>5} x {:>5} x {:>5}  {:>4} -> {:<4}  {:>7.1f} GFLOP/s   plain oneDNN {:>7.1f}   ratio {:.2f}\n", test.name, test.m,
             test.n, test.k, to_string(test.operands), to_string(test.result), flops / ours * 1e-9, flops / theirs * 1e-9, theirs / ours);
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  fmt::print("{}, {} threads\n", describe(cpu_features()), threads);
  const MatmulOptions forward{.transpose_b = true}, input{}, weight{.transpose_a = true, .accumulate = true};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Case& test : {Case{"forward 2048 tokens", 2048, 1536, 512, dtype, dtype, forward},
                             {"input gradient", 2048, 512, 1536, dtype, dtype, input},
                             {"weight gradient", 1536, 512, 2048, dtype, DType::f32, weight},
                             // A weight that is already packed; there are none without AVX-512.
                             {"forward, packed", 2048, 1536, 512, dtype, dtype, {.transpose_b = true, .packed_b = true}},
                             {"input gr., packed", 2048, 512, 1536, dtype, dtype, {.packed_b = true}},
                             {"forward 512 tokens", 512, 688, 256, dtype, dtype, forward},
                             {"input gradient", 512, 256, 688, dtype, dtype, input},
                             {"weight gradient", 688, 256, 512, dtype, DType::f32, weight},
                             {"head tile", 2048, 1024, 512, dtype, DType::f32, forward},
                             {"square", 1024, 1024, 1024, dtype, dtype, input},
                             {"one token", 1, 1536, 512, dtype, dtype, forward},
                             // There are fewer rows than threads, so columns are divided.
                             {"one token, packed", 1, 1536, 512, dtype, dtype, {.transpose_b = true, .packed_b = true}},
                             {"a prompt, packed", 24, 1536, 512, dtype, dtype, {.transpose_b = true, .packed_b = true}}})
      if (!test.options.packed_b || packs_operands()) measure(test, team);
}

// packing_bench [threads]: packs weights for both products, as after an optimizer step, tensor by tensor and more than the caches
// hold, in GB/s of the bytes that must be read and written, beside those of a plain copy.

#include <fmt/format.h>

#include "benchmarks/kernels/plain_copy.hpp"
#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/packing.hpp"

int main(int count, char** arguments) {
  using namespace millrace::kernels;
  const int threads = millrace::benchmarks::threads_from(count, arguments);
  ThreadTeam team(threads);
  const ExecutionContext context(team);
  fmt::print("{}, {} threads\n", describe(cpu_features()), threads);
  constexpr std::int64_t total = 128 << 20;  // elements
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{512, 1408}, {768, 3072}, {50257, 768}}) {
      const std::int64_t tensors = total / (rows * columns);
      const Buffer weights(static_cast<std::size_t>(tensors * rows * columns) * size_of(dtype));
      for (const bool transpose : {false, true}) {
        const std::size_t bytes = transpose ? packed_bytes(columns, rows, dtype) : packed_bytes(rows, columns, dtype);
        const Buffer packed(static_cast<std::size_t>(tensors) * bytes);
        const std::size_t read = weights.size() / static_cast<std::size_t>(tensors);
        const double seconds = millrace::benchmarks::seconds_of([&] {
          for (std::int64_t i = 0; i < tensors; ++i)
            pack(context, make_tensor(weights.data() + static_cast<std::size_t>(i) * read, dtype, {rows, columns}), transpose,
                 packed.data() + static_cast<std::size_t>(i) * bytes);
        });
        const auto moved = static_cast<double>(weights.size() + packed.size());
        fmt::print("{} {:>5} x {:<4}{}  {:7.2f} ms  {:6.1f} GB/s, copy {:6.1f} GB/s\n", to_string(dtype), rows, columns,
                   transpose ? " turned" : "       ", 1e3 * seconds, moved / seconds * 1e-9, millrace::benchmarks::copy_rate(team, moved));
      }
    }
}

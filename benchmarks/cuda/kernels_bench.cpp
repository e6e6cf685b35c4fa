// cuda_kernels_bench [--small] [--only WORD] [--tokens N] [--seconds S] [--algorithms FILE]: kernels on the first GPU, in the sizes of
// configs/runs/cuda-1b.toml; then those of experts, other mixers, a large vocabulary and other optimizers. Each is timed on the device
// between two events without intermediate waits; the output has medians and the fraction of the data sheet's peak. --small: tiny sizes, for
// the emulation. --algorithms: the file of measured algorithms, as for cuda.algorithms; the default is the library's first suggestion.
// FLOPs are those of the matrix products alone (attention: of the unmasked pairs, 2 products forward and 5 backward; the head: 3 for its
// gradients); bytes are the minimum that must be read and written.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "benchmarks/cuda/bench.hpp"
#include "kernels/base/check.hpp"

namespace {

using namespace millrace::benchmarks::cuda;

int run(int count, char** arguments) {
  Sizes sizes;
  DeviceOptions options;
  std::string only;
  double seconds = 0.5;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    const auto value = [&] {
      if (++i == count) millrace::fail(millrace::ExitCode::usage, "cuda_kernels_bench", "nothing behind {}", word);
      return arguments[i];
    };
    if (word == "--small")
      sizes = kSmall, seconds = 0;
    else if (word == "--only")
      only = value();
    else if (word == "--tokens")
      sizes.tokens = std::max(std::atoll(value()) / sizes.sequence * sizes.sequence, static_cast<long long>(sizes.sequence));
    else if (word == "--seconds")
      seconds = std::atof(value());
    else if (word == "--algorithms")
      options.choices = value();
    else
      millrace::fail(millrace::ExitCode::usage, "cuda_kernels_bench",
                     "{}, expected --small, --only WORD, --tokens N, --seconds S or --algorithms FILE", word);
  }
  if (const std::string why = why_no_cuda(); !why.empty()) {
    fmt::print("no device: {}\n", why);
    return 0;
  }
  const DeviceDescription device = cuda_devices().front();
  fmt::print("device {}: {}, {:.1f} GiB, compute capability {}.{} | {}\n", to_string(device.device), device.name,
             static_cast<double>(device.total_bytes) * 0x1p-30, device.major, device.minor, device_type(device.device).libraries());
  const auto context = make_context(device.device, options);
  Bench bench(*context, peak_of(device), seconds, only);
  measure_dense(bench, sizes);
  measure_optimizers(bench, sizes);
  measure_vocabulary(bench, sizes);
  measure_experts(bench, sizes);
  measure_mixers(bench, sizes);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}

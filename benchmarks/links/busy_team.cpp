#include "benchmarks/links/busy_team.hpp"

#include <cstring>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/matmul.hpp"

namespace millrace::cluster {

BusyTeam::BusyTeam(Transport& transport, int threads, std::vector<int> cores, bool knows_workers)
    : transport_(transport),
      knows_workers_(knows_workers),
      worker_([this, threads, cores = std::move(cores)]() mutable { compute(threads, std::move(cores)); }) {
  while (products() == 0) std::this_thread::yield();
}

BusyTeam::~BusyTeam() {
  stop_.store(true);
  worker_.join();
}

void BusyTeam::compute(int threads, std::vector<int> cores) {
  using namespace kernels;
  constexpr std::int64_t size = 512, bytes = size * size * static_cast<std::int64_t>(sizeof(float));
  const Shape shape{size, size};
  const Buffer memory(3 * bytes);
  std::memset(memory.data(), 0, 3 * bytes);
  const auto matrix = [&](int index) { return Tensor{memory.data() + index * bytes, DType::f32, shape}; };
  const MatmulOptions options{.transpose_b = true};
  const Buffer scratch(matmul_scratch_bytes(shape, shape, DType::f32, DType::f32, options, threads));
  ThreadTeam team(threads, std::move(cores));
  const ExecutionContext context(team);
  if (knows_workers_) transport_.set_workers(1), transport_.computing(true);
  while (!stop_.load(std::memory_order_relaxed)) {
    matmul(context, matrix(0), matrix(1), matrix(2), options, scratch.bytes());
    products_.fetch_add(1, std::memory_order_relaxed);
  }
  if (knows_workers_) transport_.computing(false), transport_.set_workers(0);
}

}  // namespace millrace::cluster

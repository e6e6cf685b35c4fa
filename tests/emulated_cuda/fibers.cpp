#include "tests/emulated_cuda/fibers.hpp"

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/emulated_cuda/include/device_functions.h"

#ifndef __x86_64__
#include <ucontext.h>
#endif

constinit thread_local uint3 threadIdx = {};
constinit thread_local uint3 blockIdx = {};
constinit thread_local dim3 blockDim = {};
constinit thread_local dim3 gridDim = {};
constinit thread_local int emulated_cuda::current_lane = 0;

namespace emulated_cuda {
namespace {

constexpr std::size_t kStack = 128U << 10, kGuard = 4096;
constexpr unsigned kMostThreads = 1024, kWarp = 32;
constexpr std::int64_t kMostYields = 1'000'000'000;  // of a block: more are a loop that waits forever

void fiber_main();

// -- switching from one stack to another ------------------------------------------------------------------------------------------------

#ifdef __x86_64__
// void switch_stacks(void** from, void* to): saves the callee-saved registers on the old stack and restores them from the new one.
extern "C" void millrace_emulated_switch(void** from, void* to);
asm(R"(
.text
.type millrace_emulated_switch,@function
millrace_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size millrace_emulated_switch,.-millrace_emulated_switch
)");

struct Context {
  void* top = nullptr;
  void start(std::byte* stack, std::size_t bytes) {
    auto* const end = reinterpret_cast<void**>(stack + bytes);
    end[-1] = nullptr;  // fiber_main never returns
    end[-2] = reinterpret_cast<void*>(&fiber_main);
    for (int saved = 3; saved <= 8; ++saved) end[-saved] = nullptr;
    top = end - 8;
  }
  void go_to(Context& other) { millrace_emulated_switch(&top, other.top); }
};
#else
struct Context {
  ucontext_t place = {};
  void start(std::byte* stack, std::size_t bytes) {
    getcontext(&place);
    place.uc_stack.ss_sp = stack;
    place.uc_stack.ss_size = bytes;
    makecontext(&place, &fiber_main, 0);
  }
  void go_to(Context& other) { swapcontext(&place, &other.place); }
};
#endif

struct Fiber {
  Context context;
  std::byte* memory = nullptr;
  /// Stacks begin at different offsets in their pages; otherwise they would all compete for the same cache lines.
  explicit Fiber(std::size_t number) {
    void* const mapped = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      std::fputs("emulated CUDA: no memory for the stack of a thread\n", stderr);
      std::abort();
    }
    memory = static_cast<std::byte*>(mapped);
    mprotect(memory, kGuard, PROT_NONE);
    context.start(memory + kGuard, kStack - number % 128 * 192);
  }
  ~Fiber() { munmap(memory, kStack + kGuard); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
};

// -- a block ------------------------------------------------------------------------------------------------------------------------------

struct Thread {
  Fiber* fiber = nullptr;
  std::uint64_t value = 0, result = 0;
  int source = 0;  // of a shuffle; −1: a ballot
};

/// Lanes that wait for each other: those of one mask.
struct Meeting {
  unsigned mask, arrived;
};

struct Warp {
  unsigned live = 0;
  int meetings = 0;
  Meeting meeting[kWarp];
};

struct Block {
  Context outside;
  const std::function<void()>* body = nullptr;
  unsigned threads = 0, next = 0, live = 0, current = 0;
  Thread thread[kMostThreads];
  Warp warp[kMostThreads / kWarp];
  unsigned ready[kMostThreads];  // a ring
  unsigned first = 0, waiting = 0;
  unsigned arrived = 0, arrivals[kMostThreads];  // at the block's barrier
  int holding = 0;
  std::int64_t yields = 0;
  Count count = {};
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> free;
  std::vector<std::byte> shared;

  void make_ready(unsigned which) { ready[(first + waiting++) % kMostThreads] = which; }

  Fiber* take_fiber() {
    if (free.empty()) {
      fibers.push_back(std::make_unique<Fiber>(fibers.size()));
      return fibers.back().get();
    }
    Fiber* const fiber = free.back();
    free.pop_back();
    return fiber;
  }

  void be(unsigned which) {
    current = which;
    current_lane = static_cast<int>(which % kWarp);
    const unsigned row = which / blockDim.x;
    threadIdx = {which - row * blockDim.x, row % blockDim.y, row / blockDim.y};
  }

  /// Selects the fiber that runs next: that of a ready thread, else that of the next thread to begin. Returns null if none can run.
  Fiber* choose() {
    if (waiting > 0) {
      const unsigned which = ready[first];
      first = (first + 1) % kMostThreads;
      --waiting;
      be(which);
      return thread[which].fiber;
    }
    if (next == threads) return nullptr;
    const unsigned which = next++;
    thread[which].fiber = take_fiber();
    be(which);
    return thread[which].fiber;
  }

  [[noreturn]] void stuck() const {
    std::fprintf(stderr,
                 "emulated CUDA: block (%u, %u, %u) of %u threads cannot go on: %u have returned, %u wait at __syncthreads, the others "
                 "for lanes of their warp or in a loop\n",
                 blockIdx.x, blockIdx.y, blockIdx.z, threads, threads - live, arrived);
    std::abort();
  }

  void wait() {
    Fiber* const self = thread[current].fiber;
    Fiber* const other = choose();
    if (other == nullptr) stuck();
    if (other != self) self->context.go_to(other->context);
  }

  void open_barrier() {
    count = {holding, static_cast<int>(arrived)};
    for (unsigned i = 0; i < arrived; ++i)
      if (arrivals[i] != current) make_ready(arrivals[i]);
    arrived = 0;
    holding = 0;
  }

  void end_meeting(unsigned which_warp, int which) {
    Warp& w = warp[which_warp];
    Thread* const lanes = thread + which_warp * kWarp;
    const unsigned there = w.meeting[which].arrived;
    if (lanes[std::countr_zero(there)].source < 0) {
      unsigned holds = 0;
      for (unsigned rest = there; rest != 0; rest &= rest - 1)
        if (lanes[std::countr_zero(rest)].value != 0) holds |= 1U << std::countr_zero(rest);
      for (unsigned rest = there; rest != 0; rest &= rest - 1) lanes[std::countr_zero(rest)].result = holds;
    } else {
      for (unsigned rest = there; rest != 0; rest &= rest - 1) {
        Thread& one = lanes[std::countr_zero(rest)];
        one.result = one.source >= 0 && (there >> one.source & 1U) != 0 ? lanes[one.source].value : ~std::uint64_t{0};
      }
    }
    w.meeting[which] = w.meeting[--w.meetings];
    for (unsigned rest = there; rest != 0; rest &= rest - 1) {
      const unsigned other = which_warp * kWarp + static_cast<unsigned>(std::countr_zero(rest));
      if (other != current) make_ready(other);
    }
  }

  /// The value that the current thread contributes is in thread[current].
  void meet_in_warp(unsigned mask) {
    const unsigned which_warp = current / kWarp, bit = 1U << current % kWarp;
    Warp& w = warp[which_warp];
    if ((mask & bit) == 0) {
      std::fprintf(stderr, "emulated CUDA: lane %u meets lanes %08x, and is none of them\n", current % kWarp, mask);
      std::abort();
    }
    int which = 0;
    while (which < w.meetings && w.meeting[which].mask != mask) ++which;
    if (which == w.meetings) w.meeting[w.meetings++] = {mask, 0};
    w.meeting[which].arrived |= bit;
    if ((w.meeting[which].arrived & w.live) == (mask & w.live))
      end_meeting(which_warp, which);
    else
      wait();
  }

  /// The current thread has returned, so others no longer wait for it.
  void leave() {
    const unsigned which_warp = current / kWarp;
    --live;
    Warp& w = warp[which_warp];
    w.live &= ~(1U << current % kWarp);
    for (int i = w.meetings - 1; i >= 0; --i)
      if ((w.meeting[i].arrived & w.live) == (w.meeting[i].mask & w.live)) end_meeting(which_warp, i);
    if (arrived > 0 && arrived == live) open_barrier();
  }

  void run() {
    next = 0;
    yields = 0;
    live = threads;
    for (unsigned w = 0; w * kWarp < threads; ++w) {
      const unsigned lanes = threads - w * kWarp;
      warp[w].live = lanes >= kWarp ? 0xffffffffU : (1U << lanes) - 1;
      warp[w].meetings = 0;
    }
    Fiber* const fiber = choose();
    outside.go_to(fiber->context);
  }
};

/// The kernels for Hopper GPUs.
struct Hopper {
  const char* const mode = std::getenv("MILLRACE_EMULATED_HOPPER");
  const bool early = mode != nullptr && std::strcmp(mode, "early") == 0;
  std::atomic<std::int64_t> products{0};
  ~Hopper() {
    if (mode != nullptr && products == 0) std::fputs("emulated CUDA: no product of a warpgroup was computed\n", stderr);
  }
} hopper;

thread_local std::unique_ptr<Block> keeper;
constinit thread_local Block* block = nullptr;  // the same as the keeper's, without the guard of its initialisation

void fiber_main() {
  Block& b = *block;
  for (;;) {
    (*b.body)();
    b.leave();
    Fiber* const self = b.thread[b.current].fiber;
    if (b.waiting == 0 && b.next < b.threads) {  // the next thread on the same stack
      b.thread[b.next].fiber = self;
      b.be(b.next++);
      continue;
    }
    b.free.push_back(self);
    if (b.live == 0) {
      self->context.go_to(b.outside);
    } else {
      Fiber* const other = b.choose();
      if (other == nullptr) b.stuck();
      if (other != self) self->context.go_to(other->context);
    }
  }
}

}  // namespace

void* dynamic_shared() noexcept {
  constexpr std::size_t line = 1024;
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(block->shared.data()) + line - 1) / line * line);
}

Count meet_in_block(bool predicate) {
  Block& b = *block;
  b.holding += predicate ? 1 : 0;
  b.arrivals[b.arrived++] = b.current;
  if (b.arrived == b.live)
    b.open_barrier();
  else
    b.wait();
  return b.count;
}

void yield() {
  Block& b = *block;
  if (++b.yields > kMostYields) b.stuck();
  b.make_ready(b.current);
  b.wait();
}

void note_product() noexcept { hopper.products.fetch_add(1, std::memory_order_relaxed); }
bool products_are_early() noexcept { return hopper.early; }

std::uint64_t exchange(unsigned mask, std::uint64_t value, int source) {
  Block& b = *block;
  Thread& self = b.thread[b.current];
  self.value = value;
  self.source = source;
  b.meet_in_warp(mask);
  return self.result;
}

unsigned ballot(unsigned mask, bool predicate) {
  Block& b = *block;
  Thread& self = b.thread[b.current];
  self.value = predicate ? 1 : 0;
  self.source = -1;
  b.meet_in_warp(mask);
  return static_cast<unsigned>(self.result);
}

void run_grid(dim3 grid, dim3 threads, std::size_t shared_bytes, const std::function<void()>& body) {
  if (block == nullptr) {
    keeper = std::make_unique<Block>();
    block = keeper.get();
  }
  Block& b = *block;
  b.body = &body;
  b.threads = threads.x * threads.y * threads.z;
  gridDim = grid;
  blockDim = threads;
  // Shared memory contains the remains of earlier blocks; for the first block it is filled with this pattern, also past its end.
  b.shared.assign(shared_bytes + 2048, std::byte{0xCB});
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        b.run();
      }
}

}  // namespace emulated_cuda

#include "cluster/links/doorbells.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {
namespace {

/// What this thread wrote is visible to all before it reads on.
void full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)  // which does not know fences
  static std::atomic<int> any{0};
  any.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

struct Bell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> listening{0};
  std::array<std::byte, 120> apart{};  // separates it from the next one, since bells are rung from other cores

  // The ringing thread submits something before it reads `listening`; the other one sets `listening` before it polls for the last time:
  // so one of the two sees the other. If nobody listens, a ring writes nothing that the other core has in its cache.
  void ring() noexcept {
    full_fence();
    if (listening.load(std::memory_order_relaxed) == 0) return;
    rings.fetch_add(1, std::memory_order_relaxed);
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  std::uint32_t listen() noexcept {
    const std::uint32_t before = rings.load(std::memory_order_relaxed);
    listening.store(1, std::memory_order_relaxed);
    full_fence();
    return before;
  }
  void nap(std::uint32_t before, const timespec& longest) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings), FUTEX_WAIT, before, &longest, nullptr, 0);
  }
  void ignore() noexcept { listening.store(0, std::memory_order_relaxed); }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share it");

}  // namespace

struct Doorbells::State {
  Bell alone;
  std::atomic<Bell*> own{&alone};
  std::vector<Bell*> by_process;  // used by the transport thread; empty: the processes do not share their bells
  Bell* heard = nullptr;          // by the transport thread: between listen() and the end of its nap
  std::uint32_t before = 0;       // rings before it listened
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;
};

Doorbells::Doorbells() : state_(std::make_unique<State>()) {}
Doorbells::~Doorbells() = default;

void Doorbells::open() {
  State& state = *state_;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &state.communicator), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(state.communicator, MPI_ERRORS_RETURN);
  void* memory = nullptr;
  int shared = MPI_Win_allocate_shared(sizeof(Bell), 1, MPI_INFO_NULL, state.communicator, &memory, &state.window) == MPI_SUCCESS ? 1 : 0;
  Bell* const own = shared ? ::new (memory) Bell : nullptr;
  // Either all processes share the bells or none, and no bell is rung before it exists.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MIN, state.communicator), "MPI_Allreduce");
  if (!shared) return;

  int processes = 0;
  MPI_Comm_size(state.communicator, &processes);
  for (int process = 0; process < processes; ++process) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* bell = nullptr;
    check_mpi(MPI_Win_shared_query(state.window, process, &bytes, &unit, &bell), "MPI_Win_shared_query");
    state.by_process.push_back(static_cast<Bell*>(bell));
  }
  state.own.store(own, std::memory_order_release);
}

void Doorbells::withdraw() noexcept {
  ignore();
  state_->own.store(&state_->alone, std::memory_order_release);
}

void Doorbells::close() {
  withdraw();
  State& state = *state_;
  state.by_process.clear();
  if (state.window != MPI_WIN_NULL) MPI_Win_free(&state.window);
  if (state.communicator != MPI_COMM_NULL) MPI_Comm_free(&state.communicator);
}

bool Doorbells::heard_by_all() const noexcept { return !state_->by_process.empty(); }

void Doorbells::ring() noexcept { state_->own.load(std::memory_order_acquire)->ring(); }

void Doorbells::ring(int process) noexcept {
  if (heard_by_all()) state_->by_process[static_cast<std::size_t>(process)]->ring();
}

void Doorbells::listen() noexcept {
  State& state = *state_;
  state.heard = state.own.load(std::memory_order_acquire);
  state.before = state.heard->listen();
}

bool Doorbells::listens() const noexcept { return state_->heard != nullptr; }

void Doorbells::ignore() noexcept {
  if (Bell* const heard = std::exchange(state_->heard, nullptr)) heard->ignore();
}

void Doorbells::nap(std::chrono::microseconds longest) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec span{seconds.count(), std::chrono::nanoseconds(longest - seconds).count()};
  if (Bell* const heard = state_->heard) heard->nap(state_->before, span);
  listen();
}

}  // namespace millrace::cluster

#include "cluster/links/doorbells.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {
namespace {

struct Bell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> napping{0};
  std::array<std::byte, 120> apart{};  // separates it from the next one, since bells are rung from other cores

  // The ringing thread increments the word before it reads `napping`; the sleeping thread sets `napping` before the kernel
  // compares the word: so one of the two sees the other.
  void ring() noexcept {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (napping.load(std::memory_order_seq_cst) != 0)
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void nap(std::uint32_t seen, const timespec& longest) noexcept {
    napping.store(1, std::memory_order_seq_cst);
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings), FUTEX_WAIT, seen, &longest, nullptr, 0);
    napping.store(0, std::memory_order_relaxed);
  }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share it");

}  // namespace

struct Doorbells::State {
  Bell alone;
  std::atomic<Bell*> own{&alone};
  std::vector<Bell*> by_process;  // used by the transport thread; empty: the processes do not share their bells
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

void Doorbells::withdraw() noexcept { state_->own.store(&state_->alone, std::memory_order_release); }

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

std::uint32_t Doorbells::rings() const noexcept {
  return state_->own.load(std::memory_order_acquire)->rings.load(std::memory_order_seq_cst);
}

void Doorbells::nap(std::uint32_t seen, std::chrono::microseconds longest) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec span{seconds.count(), std::chrono::nanoseconds(longest - seconds).count()};
  state_->own.load(std::memory_order_acquire)->nap(seen, span);
}

}  // namespace millrace::cluster

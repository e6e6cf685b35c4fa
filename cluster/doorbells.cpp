#include "cluster/doorbells.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <numeric>
#include <vector>

#include "cluster/mpi_world.hpp"

namespace millrace::cluster {
namespace {

struct Bell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> napping{0};
  std::array<std::byte, 120> apart{};  // from the next one: bells are rung from other cores

  // Who rings adds before it reads `napping`; who naps sets that before the kernel compares the word: one of the two sees the other.
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
  std::vector<Bell*> by_process;  // null: out of hearing; the transport thread's
  bool heard_by_all = false;
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;
};

Doorbells::Doorbells() : state_(std::make_unique<State>()) {}
Doorbells::~Doorbells() = default;

void Doorbells::open() {
  State& state = *state_;
  int processes = 0, neighbours = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  state.by_process.assign(static_cast<std::size_t>(processes), nullptr);
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &state.host), "MPI_Comm_split_type");
  MPI_Comm_set_errhandler(state.host, MPI_ERRORS_RETURN);
  MPI_Comm_size(state.host, &neighbours);

  void* memory = nullptr;
  int shared = MPI_Win_allocate_shared(sizeof(Bell), 1, MPI_INFO_NULL, state.host, &memory, &state.window) == MPI_SUCCESS ? 1 : 0;
  Bell* const own = shared ? ::new (memory) Bell : nullptr;
  // All or none; and nobody rings a bell before it is made.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MIN, state.host), "MPI_Allreduce");
  if (!shared) return;

  std::vector<int> local(static_cast<std::size_t>(neighbours)), world(static_cast<std::size_t>(neighbours));
  std::iota(local.begin(), local.end(), 0);
  MPI_Group host_group = MPI_GROUP_NULL, world_group = MPI_GROUP_NULL;
  MPI_Comm_group(state.host, &host_group);
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  MPI_Group_translate_ranks(host_group, neighbours, local.data(), world_group, world.data());
  MPI_Group_free(&host_group);
  MPI_Group_free(&world_group);
  for (std::size_t i = 0; i < local.size(); ++i) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* bell = nullptr;
    check_mpi(MPI_Win_shared_query(state.window, local[i], &bytes, &unit, &bell), "MPI_Win_shared_query");
    state.by_process[static_cast<std::size_t>(world[i])] = static_cast<Bell*>(bell);
  }
  state.heard_by_all = neighbours == processes;
  state.own.store(own, std::memory_order_release);
}

void Doorbells::close() {
  State& state = *state_;
  state.own.store(&state.alone, std::memory_order_release);
  state.by_process.clear();
  state.heard_by_all = false;
  if (state.window != MPI_WIN_NULL) MPI_Win_free(&state.window);
  if (state.host != MPI_COMM_NULL) MPI_Comm_free(&state.host);
}

bool Doorbells::heard_by_all() const noexcept { return state_->heard_by_all; }

void Doorbells::ring() noexcept { state_->own.load(std::memory_order_acquire)->ring(); }

void Doorbells::ring(int process) noexcept {
  Bell* const bell = state_->by_process[static_cast<std::size_t>(process)];
  if (bell != nullptr) bell->ring();
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

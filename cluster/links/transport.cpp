#include "cluster/links/transport.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/host/abort.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/links/doorbells.hpp"
#include "cluster/links/mpi_world.hpp"
#include "cluster/links/single_copy.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

constexpr int host_bytes = 64;
constexpr auto transfer_spin = Microseconds(200);  // during a message; yields would double the time for 256 KiB
constexpr auto yield_span = Microseconds(50);      // between spinning and sleeping, if other threads need the core and there are no bells
// … if no other thread needs it: then yields are free, and sleeping would only add latency
constexpr auto alone_span = Microseconds(2000);
constexpr auto long_yield = Microseconds(5);  // another thread ran during such a yield
constexpr auto crowd_memory = Microseconds(20000);
constexpr auto first_nap = Microseconds(20);
constexpr auto sending_nap = Microseconds(2000);  // MPI may have put a message off until a later poll, of which no bell tells
constexpr auto idle_nap = Microseconds(1000);     // nothing is posted: only wake() matters

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A transport with a core of its own may spin; if the host's processes fill the cores with compute, a long spin would take half
/// of one.
Microseconds automatic_spin() {
  const int cores = static_cast<int>(available_cores().size());
  return Microseconds(cores >= 2 * launch_from_environment().local_processes + 1 ? 100 : 30);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ExitCode::peer_lost, "cluster.transport", "{} failed, since a process or a network is gone; MPI says \"{}\"", call, text);
}

struct Transport::State {
  ClusterConfig config;
  MpiWorld world;
  int process = 0;
  int processes = 1;
  std::vector<std::string> hosts;

  std::vector<Poller*> pollers;  // used by the transport thread
  std::function<void(const Error&)> on_failure;
  bool failed = false;

  Doorbells bells;
  std::atomic<bool> has_task{false};
  std::mutex mutex;
  std::condition_variable task_done;
  const std::function<void()>* task = nullptr;  // guarded by mutex
  std::exception_ptr task_error;
  std::mutex one_task;  // serialises callers of run()
  bool stop = false;    // set by a task
  std::atomic<int> workers{0};
  std::atomic<int> computing{0};
  std::thread thread;

  void start_mpi();
  void end_mpi();
  void serve();
  void run_task();
  Activity poll_all();
  [[nodiscard]] bool one_host() const;
  [[nodiscard]] bool all_compute() const noexcept {
    const int all = workers.load(std::memory_order_relaxed);
    return all > 0 && computing.load(std::memory_order_seq_cst) >= all;
  }
};

void Transport::State::start_mpi() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world.control), "MPI_Comm_dup");
  for (MPI_Comm& communicator : world.by_kind) check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "MPI_Comm_dup");
  for (MPI_Comm& communicator : world.exchanges) check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world.control, MPI_ERRORS_RETURN);
  for (MPI_Comm communicator : world.exchanges) MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  for (MPI_Comm communicator : world.by_kind) MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  void* limit = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
  world.tag_limit = found ? *static_cast<int*>(limit) : 32767;

  std::string own = host_name();
  own.resize(host_bytes);
  std::vector<char> all(static_cast<std::size_t>(processes) * host_bytes);
  check_mpi(MPI_Allgather(own.data(), host_bytes, MPI_CHAR, all.data(), host_bytes, MPI_CHAR, world.control), "MPI_Allgather");
  for (int other = 0; other < processes; ++other) hosts.emplace_back(all.data() + static_cast<std::size_t>(other) * host_bytes);
  // Open MPI 4.1 crashed for windows over a subset of the processes, over TCP between two hosts.
  if (processes > 1 && one_host()) bells.open();

  world.bells = bells.heard_by_all();
  world.single_copy = one_host() && single_copy_transfers(world.control);
}

bool Transport::State::one_host() const {
  // Containers and cloned machines may share a name by accident, but the launcher knows how many processes it started on this
  // host.
  if (launch_from_environment().local_processes < processes) return false;
  return std::all_of(hosts.begin(), hosts.end(), [this](const std::string& host) { return host == hosts.front(); });
}

void Transport::State::end_mpi() {
  bells.close();
  for (MPI_Comm& communicator : world.by_kind) MPI_Comm_free(&communicator);
  for (MPI_Comm& communicator : world.exchanges) MPI_Comm_free(&communicator);
  MPI_Comm_free(&world.control);
  MPI_Finalize();
}

void Transport::State::run_task() {
  std::unique_lock lock(mutex);
  if (task == nullptr) return;
  const auto* current = task;
  has_task.store(false, std::memory_order_relaxed);
  lock.unlock();
  std::exception_ptr error;
  try {
    (*current)();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  task = nullptr;
  task_error = error;
  task_done.notify_all();
}

Activity Transport::State::poll_all() {
  if (failed) return Activity::idle;
  Activity most = Activity::idle;
  try {
    for (Poller* poller : pollers) most = std::max(most, poller->poll());
  } catch (const std::exception& error) {
    failed = true;
    on_failure(as_error(error, "cluster.transport"));
  }
  return most;
}

void Transport::State::serve() {
  const auto spin = config.spin_microseconds >= 0 ? Microseconds(config.spin_microseconds) : automatic_spin();
  const auto nap_limit = std::max(first_nap, Microseconds(config.nap_limit_microseconds));
  const auto long_nap = std::max(nap_limit, Microseconds(config.long_nap_microseconds));
  auto next_nap = first_nap;
  bool patient = false;
  auto last_activity = Clock::now();
  auto crowded_until = last_activity;
  // Whether it slept: before its first sleep it listens, and polls once more.
  const auto sleep = [this](Microseconds longest) {
    if (!bells.listens()) {
      bells.listen();
      return false;
    }
    bells.nap(longest);
    return true;
  };
  while (!stop) {
    if (has_task.load(std::memory_order_acquire)) run_task();
    if (stop) break;
    const Activity activity = poll_all();
    const bool was_patient = std::exchange(patient, all_compute());
    if (activity == Activity::moved || (was_patient && !patient)) {
      bells.ignore();
      last_activity = Clock::now();
      next_nap = first_nap;
      continue;
    }
    const bool heard = bells.heard_by_all() && activity < Activity::unsignalled;
    const auto heard_nap = activity == Activity::sending ? std::min(long_nap, sending_nap) : long_nap;
    if (patient && heard) {
      sleep(heard_nap);
      continue;
    }
    const auto now = Clock::now();
    const auto quiet = now - last_activity;
    const auto yields = now >= crowded_until ? alone_span : bells.heard_by_all() ? Microseconds(0) : yield_span;
    if (quiet < (activity == Activity::transferring ? std::max(spin, transfer_spin) : spin)) {
      bells.ignore();
      pause_briefly();
    } else if (activity == Activity::transferring || quiet < spin + yields) {
      bells.ignore();
      const auto before = Clock::now();
      sched_yield();
      const auto after = Clock::now();
      if (after - before > long_yield) crowded_until = after + crowd_memory;
    } else if (activity == Activity::idle) {
      sleep(idle_nap);
    } else if (heard) {
      sleep(heard_nap);
    } else {
      next_nap = std::min(next_nap, patient && activity == Activity::listening ? long_nap : nap_limit);
      if (sleep(next_nap)) next_nap += next_nap / 4;
    }
  }
}

Transport::Transport(const ClusterConfig& config) : state_(std::make_unique<State>()) {
  // MPI inspects the machine with hwloc, whose plug-in for graphics cards asks for X displays on localhost: this takes seconds if
  // that name is not in /etc/hosts.
  setenv("HWLOC_COMPONENTS", "-gl", 0);
  State& state = *state_;
  state.config = config;
  state.on_failure = [](const Error& error) { abort_job(error.code(), error.what()); };
  std::exception_ptr error;
  bool started = false;
  state.thread = std::thread([&state, &error, &started] {
    pthread_setname_np(pthread_self(), "transport");
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; the default of 50 µs would more than double the shortest sleep
    run_soon_when_woken();
    bool up = false;
    {
      std::exception_ptr problem;
      try {
        state.start_mpi();
        up = true;
      } catch (...) {
        problem = std::current_exception();
      }
      const std::lock_guard lock(state.mutex);
      error = std::move(problem);
      started = true;
      state.task_done.notify_all();
    }
    // The constructor may have returned, so its locals are gone: only our own may be read from here on.
    if (up) state.serve();
  });
  std::unique_lock lock(state.mutex);
  state.task_done.wait(lock, [&] { return started; });
  lock.unlock();
  if (error) {
    state.thread.join();
    std::rethrow_exception(error);
  }
}

Transport::~Transport() {
  try {
    finalize();
  } catch (const std::exception& error) {
    abort_job(ExitCode::internal, fmt::format("[cluster.transport] finalizing: {}", error.what()));
  }
}

int Transport::process() const noexcept { return state_->process; }
int Transport::processes() const noexcept { return state_->processes; }
const std::string& Transport::host(int process) const { return state_->hosts.at(static_cast<std::size_t>(process)); }
const MpiWorld& Transport::world() const noexcept { return state_->world; }

bool Transport::one_host() const noexcept { return state_->one_host(); }

namespace {

constexpr int broadcast_tag = 1;

/// The transport thread must not block in MPI: links of this process may have to make progress for the others to arrive.
void complete(Transport& transport, std::span<MPI_Request> requests) {
  for (int done = 0; !done;) {
    transport.run(
        [&] { check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall"); });
    if (!done) std::this_thread::sleep_for(Microseconds(50));
  }
}

}  // namespace

void Transport::broadcast(std::span<std::byte> bytes) {
  // Plain messages from process 0: MPI_Bcast would block the transport thread, and its chains need the processes in the middle to
  // keep calling MPI.
  std::vector<MPI_Request> requests;
  const int count = static_cast<int>(bytes.size());
  run([&] {
    if (process() != 0) {
      requests.emplace_back();
      return check_mpi(MPI_Irecv(bytes.data(), count, MPI_BYTE, 0, broadcast_tag, state_->world.control, &requests.back()), "MPI_Irecv");
    }
    requests.resize(static_cast<std::size_t>(processes() - 1));
    for (int other = 1; other < processes(); ++other) {
      check_mpi(MPI_Isend(bytes.data(), count, MPI_BYTE, other, broadcast_tag, state_->world.control,
                          &requests[static_cast<std::size_t>(other - 1)]),
                "MPI_Isend");
    }
  });
  complete(*this, requests);
}

void Transport::barrier() {
  std::vector<MPI_Request> requests(1);
  run([&] { check_mpi(MPI_Ibarrier(state_->world.control, requests.data()), "MPI_Ibarrier"); });
  complete(*this, requests);
}

void Transport::run(const std::function<void()>& task) {
  State& state = *state_;
  if (std::this_thread::get_id() == state.thread.get_id()) return task();
  const std::lock_guard turn(state.one_task);
  MILLRACE_CHECK(state.thread.joinable(), ExitCode::internal, "cluster.transport", "a task after finalize");
  std::unique_lock lock(state.mutex);
  state.task = &task;
  state.has_task.store(true, std::memory_order_release);
  wake();
  state.task_done.wait(lock, [&] { return state.task == nullptr; });
  if (state.task_error) std::rethrow_exception(std::exchange(state.task_error, nullptr));
}

void Transport::attach(Poller& poller) {
  run([&] { state_->pollers.push_back(&poller); });
}

void Transport::detach(Poller& poller) {
  run([&] { std::erase(state_->pollers, &poller); });
}

void Transport::wake() noexcept {
  // The transport thread polls before it sleeps anyway.
  if (std::this_thread::get_id() != state_->thread.get_id()) state_->bells.ring();
}
void Transport::wake(int process) noexcept { state_->bells.ring(process); }

void Transport::set_workers(int workers) noexcept { state_->workers.store(workers, std::memory_order_relaxed); }

void Transport::computing(bool begins) noexcept {
  state_->computing.fetch_add(begins ? 1 : -1, std::memory_order_seq_cst);
  if (!begins) wake();
}

void Transport::on_failure(std::function<void(const Error&)> handler) {
  run([&] { state_->on_failure = std::move(handler); });
}

void Transport::finalize() {
  State& state = *state_;
  if (!state.thread.joinable()) return;
  // A thread that submitted a task may still ring after the task has begun: its ring must not access the memory that is about to
  // be freed.
  run([&state] { state.bells.withdraw(); });
  run([&state] {
    MILLRACE_CHECK(state.pollers.empty(), ExitCode::internal, "cluster.transport", "finalize with {} links still open",
                   state.pollers.size());
    state.end_mpi();
    state.stop = true;
  });
  state.thread.join();
}

}  // namespace millrace::cluster

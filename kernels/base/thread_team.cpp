#include "kernels/base/thread_team.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>

#include "kernels/base/check.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::kernels {
namespace {

using Clock = std::chrono::steady_clock;

/// Longer than the gap between two operations of a program, and short against the scheduler's time slice, for when threads
/// outnumber cores.
constexpr auto kSpin = std::chrono::microseconds(40);

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Spins for at most kSpin; returns whether `ready` became true. The clock is read rarely, since that costs as much as many
/// pauses.
template <class Ready>
bool spin_until(Ready&& ready) noexcept {
  const auto begin = Clock::now();
  do {
    for (int pause = 0; pause < 64; ++pause) {
      if (ready()) return true;
      relax();
    }
  } while (Clock::now() - begin < kSpin);
  return ready();
}

void pin_to_core(pthread_t thread, int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  // A core that the container does not own is not an error: the thread is then not pinned.
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace

struct ThreadTeam::State {
  // Written by the caller before it publishes a generation, read by members after they see the generation.
  Erased body = nullptr;
  void* context = nullptr;
  bool stop = false;
  int members = 1;  // threads of the system, including the caller
  std::vector<std::exception_ptr> errors;
  std::vector<int> cores;
  bool caller_pinned = false;
  std::vector<std::thread> threads;
  alignas(128) std::atomic<std::uint32_t> generation{0};
  alignas(128) std::atomic<int> working{0};

  void work(int member, int member_count, int size) noexcept {
    std::uint32_t seen = 0;
    for (;;) {
      if (!spin_until([&] { return generation.load(std::memory_order_acquire) != seen; })) generation.wait(seen, std::memory_order_acquire);
      const auto now = generation.load(std::memory_order_acquire);
      if (now == seen) continue;
      seen = now;
      if (stop) return;
      call_part(member, member_count, size);
      if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) working.notify_one();
    }
  }

  /// Runs those of the team's threads that this member stands for, in order.
  void call_part(int member, int member_count, int size) noexcept {
    for (int thread = size * member / member_count; thread < size * (member + 1) / member_count; ++thread) call(thread, size);
  }

  void call(int thread, int size) noexcept {
    try {
      body(context, thread, size);
    } catch (...) {
      errors[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  }

  void wait_for_members() noexcept {
    if (spin_until([&] { return working.load(std::memory_order_acquire) == 0; })) return;
    for (int left = working.load(std::memory_order_acquire); left != 0; left = working.load(std::memory_order_acquire))
      working.wait(left, std::memory_order_acquire);
  }

  void end() noexcept {
    stop = true;
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (auto& thread : threads) thread.join();
  }

  /// Only the error of the lowest thread index is rethrown.
  void rethrow() {
    std::exception_ptr first;
    for (auto& error : errors) {
      if (error && !first) first = error;
      error = nullptr;
    }
    if (first) std::rethrow_exception(first);
  }
};

ThreadTeam::ThreadTeam(int threads, std::vector<int> cores) : state_(std::make_unique<State>()), size_(threads) {
  MILLRACE_CHECK(threads >= 1, ExitCode::config, "kernels.thread_team", "threads = {}, expected 1 or more", threads);
  state_->errors.resize(static_cast<std::size_t>(threads));
  state_->cores = std::move(cores);
  if (!state_->cores.empty()) state_->members = std::min(threads, static_cast<int>(state_->cores.size()));
  if (state_->cores.empty()) state_->members = threads;
  const int members = state_->members;
  state_->threads.reserve(static_cast<std::size_t>(members) - 1);
  for (int member = 1; member < members; ++member) {
    try {
      state_->threads.emplace_back([state = state_.get(), member, members, threads] { state->work(member, members, threads); });
    } catch (const std::system_error&) {
      state_->end();
      throw refused_thread(fmt::format("thread {} of {}", member + 1, members), "kernels.thread_team");
    }
    auto& last = state_->threads.back();
    if (!state_->cores.empty()) pin_to_core(last.native_handle(), state_->cores[static_cast<std::size_t>(member) % state_->cores.size()]);
  }
}

ThreadTeam::~ThreadTeam() { state_->end(); }

void ThreadTeam::run_erased(Erased body, void* context) {
  State& state = *state_;
  if (!state.caller_pinned && !state.cores.empty()) {
    pin_to_core(pthread_self(), state.cores[0]);
    state.caller_pinned = true;
  }
  if (size_ == 1) return body(context, 0, 1);
  state.body = body;
  state.context = context;
  if (state.members > 1) {
    state.working.store(state.members - 1, std::memory_order_relaxed);
    state.generation.fetch_add(1, std::memory_order_release);
    state.generation.notify_all();
  }
  state.call_part(0, state.members, size_);
  if (state.members > 1) state.wait_for_members();
  state.rethrow();
}

}  // namespace millrace::kernels

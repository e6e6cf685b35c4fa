#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

namespace millrace::actors {

/// The one thread of a rank: its actors decide on it and its stages compute on it. Tasks run in the order in which they were posted, which
/// is the order in which they were decided; nothing else touches the rank's memory meanwhile, except slots that the rank has lent: batches
/// to the loader, rings to the links. post() may be called from any thread, never blocks and never allocates: a task is a trivially
/// copyable closure in a ring that is allocated once.
class ComputeWorker {
 public:
  /// What a task does: `decides` takes microseconds, `computes` may take long and keeps the rank's cores busy.
  enum class Load : std::uint8_t { decides, computes };
  /// `start` runs on the new thread first (pinning, the thread team), `stop` last. `computing` is called there with true before the first
  /// task that computes, and with false once no task is left. `poll` is called there between tasks, and repeatedly while there is no task
  /// and it returns true because work is under way elsewhere (on a GPU): the worker has not run out of work until it returns false. Throws
  /// what `start` threw.
  ComputeWorker(std::size_t capacity, std::function<void()> start, std::function<void()> stop, std::function<void(bool)> computing = {},
                std::function<bool()> poll = {});
  /// Runs the queued tasks, then joins.
  ~ComputeWorker();
  ComputeWorker(const ComputeWorker&) = delete;
  ComputeWorker& operator=(const ComputeWorker&) = delete;

  /// Throws Error(internal) when `capacity` tasks wait already: credits and the issue-ahead bound keep them far below.
  template <class Body>
  void post(Load load, Body body) {
    enqueue(make_task(load, body));
  }
  /// post() of a task that computes, and wait until it has run; rethrows what it threw. From the worker itself: a plain call.
  void run(const std::function<void()>& body);

 private:
  struct Task {
    static constexpr std::size_t capacity = 224;
    alignas(std::max_align_t) std::array<std::byte, capacity> storage;
    void (*call)(std::byte*) = nullptr;
    Load load = Load::decides;
  };
  template <class Body>
  static Task make_task(Load load, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= Task::capacity, "capture pointers and small structs");
    Task task;
    task.load = load;
    new (task.storage.data()) Body(body);
    task.call = [](std::byte* storage) { (*std::launder(reinterpret_cast<Body*>(storage)))(); };
    return task;
  }
  void enqueue(const Task& task);
  void loop();
  bool take(Task& task);  // false at the end
  void poll_until_task(std::unique_lock<std::mutex>& lock);
  std::vector<Task> ring_;
  std::size_t head_ = 0, size_ = 0;
  bool stopping_ = false;
  bool computes_ = false;  // as `computing_` was called last; the worker's own
  std::function<void(bool)> computing_;
  std::function<bool()> poll_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::thread thread_;
};

}  // namespace millrace::actors

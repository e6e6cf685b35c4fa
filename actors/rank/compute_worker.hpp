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

/// The one thread on which a rank computes. Tasks run in the order in which they were posted; nothing else touches the rank's memory
/// meanwhile, but slots that it was lent: the loader's batches, the links' rings. post() may be called from any thread, never blocks and
/// never allocates: a task is a trivially copyable closure in a ring that is allocated once.
class ComputeWorker {
 public:
  /// `start` runs on the new thread first (pinning, the thread team), `stop` last. `computing` is told there when it has something to run
  /// again (true), and when it has run out of it (false). `poll` is asked there between tasks, and again and again while there is none and
  /// it says that something is under way elsewhere (on a GPU): the worker has not run out of work until it says no. Throws what `start`
  /// threw.
  ComputeWorker(std::size_t capacity, std::function<void()> start, std::function<void()> stop, std::function<void(bool)> computing = {},
                std::function<bool()> poll = {});
  /// Runs what is queued, then joins.
  ~ComputeWorker();
  ComputeWorker(const ComputeWorker&) = delete;
  ComputeWorker& operator=(const ComputeWorker&) = delete;

  /// Throws Error(internal) when `capacity` tasks wait already: the engine's issue-ahead bound keeps them far below.
  template <class Body>
  void post(Body body) {
    enqueue(make_task(body));
  }
  /// The same for posts that may overtake each other on their way, as those of a rank's stage actors do, which run side by side: they run
  /// in the order of their tickets 0, 1, 2, …, each given once. Throws Error(internal) when `capacity` tickets are ahead of a missing one.
  template <class Body>
  void post_in_order(std::int64_t ticket, Body body) {
    enqueue_in_order(ticket, make_task(body));
  }
  /// post(), and wait until it has run; rethrows what it threw. Not from the worker itself.
  void run(const std::function<void()>& body);

 private:
  struct Task {
    static constexpr std::size_t capacity = 224;
    alignas(std::max_align_t) std::array<std::byte, capacity> storage;
    void (*call)(std::byte*) = nullptr;
  };
  template <class Body>
  static Task make_task(const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= Task::capacity, "capture pointers and small structs");
    Task task;
    new (task.storage.data()) Body(body);
    task.call = [](std::byte* storage) { (*std::launder(reinterpret_cast<Body*>(storage)))(); };
    return task;
  }
  void enqueue(const Task& task);
  void enqueue_in_order(std::int64_t ticket, const Task& task);
  void append(const Task& task);  // under the mutex
  void loop();
  bool take(Task& task);  // false at the end
  void poll_until_task(std::unique_lock<std::mutex>& lock);
  std::vector<Task> ring_;
  std::size_t head_ = 0, size_ = 0;
  std::vector<Task> early_;  // by ticket % capacity; call is null where nothing waits
  std::int64_t next_ticket_ = 0;
  bool stopping_ = false;
  bool computes_ = false;  // as told; the worker's own
  std::function<void(bool)> computing_;
  std::function<bool()> poll_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::thread thread_;
};

}  // namespace millrace::actors

#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace millrace::actors {

/// The one thread on which a rank computes. Tasks run in the order in which they were posted; nothing else of the rank touches its memory meanwhile.
/// post() may be called from any thread and never blocks; the ring of tasks is allocated once.
class ComputeWorker {
 public:
  using Task = std::function<void()>;

  /// `start` runs on the new thread first (pinning, the thread team).
  ComputeWorker(std::size_t capacity, Task start);
  /// Runs what is queued, then joins.
  ~ComputeWorker();
  ComputeWorker(const ComputeWorker&) = delete;
  ComputeWorker& operator=(const ComputeWorker&) = delete;

  /// Throws Error(internal) when `capacity` tasks wait already: the engine's issue-ahead bound keeps them far below.
  void post(Task task);

 private:
  void loop(const Task& start);
  std::vector<Task> ring_;
  std::size_t head_ = 0, size_ = 0;
  bool stopping_ = false;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::thread thread_;
};

}  // namespace millrace::actors

#include "actors/compute_worker.hpp"

#include "kernels/base/check.hpp"

namespace millrace::actors {

ComputeWorker::ComputeWorker(std::size_t capacity, Task start) : ring_(capacity) {
  thread_ = std::thread([this, start = std::move(start)] { loop(start); });
}

ComputeWorker::~ComputeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

void ComputeWorker::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    MILLRACE_CHECK(size_ < ring_.size(), ExitCode::internal, "actors.compute_worker", "{} tasks wait already", size_);
    ring_[(head_ + size_) % ring_.size()] = std::move(task);
    ++size_;
  }
  ready_.notify_one();
}

void ComputeWorker::loop(const Task& start) {
  if (start) start();
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return size_ > 0 || stopping_; });
      if (size_ == 0) return;
      task = std::move(ring_[head_]);
      ring_[head_] = nullptr;
      head_ = (head_ + 1) % ring_.size();
      --size_;
    }
    task();
  }
}

}  // namespace millrace::actors

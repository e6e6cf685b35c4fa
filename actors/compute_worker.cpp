#include "actors/compute_worker.hpp"

#include <exception>
#include <future>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::actors {

ComputeWorker::ComputeWorker(std::size_t capacity, std::function<void()> start, std::function<void()> stop) : ring_(capacity) {
  thread_ = std::thread([this, start = std::move(start), stop = std::move(stop)] {
    if (start) start();
    loop();
    if (stop) stop();
  });
}

ComputeWorker::~ComputeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

void ComputeWorker::run(const std::function<void()>& body) {
  std::promise<void> done;
  auto* promise = &done;
  const auto* function = &body;
  post([promise, function] {
    try {
      (*function)();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void ComputeWorker::enqueue(const Task& task) {
  {
    const std::lock_guard lock(mutex_);
    MILLRACE_CHECK(size_ < ring_.size(), ExitCode::internal, "actors.compute_worker", "{} tasks wait already", size_);
    ring_[(head_ + size_) % ring_.size()] = task;
    ++size_;
  }
  ready_.notify_one();
}

void ComputeWorker::loop() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return size_ > 0 || stopping_; });
      if (size_ == 0) return;
      task = ring_[head_];
      head_ = (head_ + 1) % ring_.size();
      --size_;
    }
    task.call(task.storage.data());
  }
}

}  // namespace millrace::actors

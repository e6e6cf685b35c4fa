#include "actors/rank/compute_worker.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::actors {

ComputeWorker::ComputeWorker(std::size_t capacity, std::function<void()> start, std::function<void()> stop,
                             std::function<void(bool)> computing, std::function<bool()> poll)
    : ring_(capacity), computing_(std::move(computing)), poll_(std::move(poll)) {
  std::promise<void> promise;
  auto started = promise.get_future();
  thread_ = std::thread([this, promise = std::move(promise), start = std::move(start), stop = std::move(stop)]() mutable {
    try {
      if (start) start();
      promise.set_value();
    } catch (...) {
      return promise.set_exception(std::current_exception());
    }
    loop();
    if (stop) stop();
  });
  try {
    started.get();
  } catch (...) {
    thread_.join();
    throw;
  }
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
  if (std::this_thread::get_id() == thread_.get_id()) return body();
  std::promise<void> done;
  auto* promise = &done;
  const auto* function = &body;
  post(Load::computes, [promise, function] {
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
    MILLRACE_CHECK(size_ < ring_.size(), ExitCode::internal, "actors.compute_worker", "{} tasks are waiting already", size_);
    ring_[(head_ + size_) % ring_.size()] = task;
    ++size_;
  }
  ready_.notify_one();
}

void ComputeWorker::loop() {
  for (Task task; take(task);) task.call(task.storage.data());
}

/// Returns with the lock when there is a task, or when nothing is in progress.
void ComputeWorker::poll_until_task(std::unique_lock<std::mutex>& lock) {
  constexpr int spins = 64;  // after that it sleeps between polls, for about the time of a message
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(exact);
  for (int look = 0;; ++look) {
    lock.unlock();
    const bool under_way = poll_();
    if (under_way && look >= spins)
      std::this_thread::sleep_for(std::chrono::microseconds(5));
    else if (under_way && look > 0)
      std::this_thread::yield();
    lock.lock();
    if (size_ > 0 || !under_way) return;
  }
}

bool ComputeWorker::take(Task& task) {
  std::unique_lock lock(mutex_);
  if (poll_) poll_until_task(lock);
  if (size_ == 0 && computes_ && computing_) {
    lock.unlock();  // it may wake another thread
    computing_(computes_ = false);
    lock.lock();
  }
  ready_.wait(lock, [this] { return size_ > 0 || stopping_; });
  if (size_ == 0) return false;
  task = ring_[head_];
  head_ = (head_ + 1) % ring_.size();
  --size_;
  lock.unlock();
  if (task.load == Load::computes && !computes_ && computing_) computing_(computes_ = true);
  return true;
}

}  // namespace millrace::actors

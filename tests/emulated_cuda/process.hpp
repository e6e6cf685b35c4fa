#pragma once

#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

/// What the parts of the emulated runtime share: settings, the permanent error, streams with their threads, and the process's memory and
/// captures. Thread-safe but for the members of a stream's capture, which only the capturing thread changes.
namespace emulated_cuda {

using Clock = std::chrono::steady_clock;

inline long long number_from(const char* name, long long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoll(text);
}

struct Settings {
  int devices = static_cast<int>(number_from("EMULATED_CUDA_DEVICES", 2));
  std::size_t memory = static_cast<std::size_t>(number_from("EMULATED_CUDA_MEMORY", 4LL << 30));
  long long delay_us = number_from("EMULATED_CUDA_DELAY_US", 0);
  long long fail_after = number_from("EMULATED_CUDA_FAIL_AFTER", 0);
};
inline const Settings& settings() {
  static const Settings* const read = new Settings;
  return *read;
}

// -- errors -------------------------------------------------------------------------------------------------------------------------------

inline std::atomic<int> broken{cudaSuccess};  // the permanent error that a launch caused
inline std::atomic<long long> launches{0};
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local int current_device = 0;

/// Returns `status`, or the permanent error if there is one, and keeps it for cudaGetLastError.
inline cudaError_t done(cudaError_t status) {
  if (const int sticky = broken.load(); sticky != cudaSuccess) status = static_cast<cudaError_t>(sticky);
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}
inline bool is_broken() { return broken.load() != cudaSuccess; }

// -- events -------------------------------------------------------------------------------------------------------------------------------

/// One recording of an event.
struct Point {
  std::mutex mutex;
  std::condition_variable reached;
  bool complete = false;
  Clock::time_point when;
  void reach() {
    const std::lock_guard lock(mutex);
    when = Clock::now();
    complete = true;
    reached.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    reached.wait(lock, [&] { return complete; });
  }
  bool is_complete() {
    const std::lock_guard lock(mutex);
    return complete;
  }
};

struct Work {
  std::function<void()> run;
  enum Kind { data, launch, order } kind = data;  // order: events, which are processed even after a permanent error
};

}  // namespace emulated_cuda

using StreamClock = std::map<cudaStream_t, std::size_t>;  // by stream: the number of its pieces of work that precede something

struct CUgraph_st {
  std::vector<emulated_cuda::Work> work;
  std::map<cudaStream_t, StreamClock> before;  // during a capture: the work that precedes a stream's next piece of work
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool valid = true, ended = false;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulated_cuda::Work>> work;
  int device = 0;
};
struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<emulated_cuda::Point> point;  // of the last recording; null: none
  std::shared_ptr<CUgraph_st> captured;         // recorded in a capture
  StreamClock after;                            // the work that precedes it in the capture
};

// A queue with a thread of its own.
struct CUstream_st {
  int device = 0;
  std::mutex mutex;
  std::condition_variable more, empty;
  std::deque<emulated_cuda::Work> queue;
  bool busy = false, stop = false;
  std::shared_ptr<CUgraph_st> capture;
  bool origin = false;  // of the capture
  std::thread worker;

  explicit CUstream_st(int device_) : device(device_), worker([this] { serve(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    more.notify_all();
    worker.join();
  }
  void push(emulated_cuda::Work work) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
    }
    more.notify_one();
  }
  void drain() {
    std::unique_lock lock(mutex);
    empty.wait(lock, [&] { return queue.empty() && !busy; });
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return queue.empty() && !busy;
  }
  static void perform(const emulated_cuda::Work& work) {
    if (work.kind == emulated_cuda::Work::order) {
      work.run();
      return;
    }
    if (emulated_cuda::is_broken()) return;
    if (emulated_cuda::settings().delay_us > 0) usleep(static_cast<useconds_t>(emulated_cuda::settings().delay_us));
    if (work.kind == emulated_cuda::Work::launch && ++emulated_cuda::launches == emulated_cuda::settings().fail_after) {
      emulated_cuda::broken = cudaErrorLaunchFailure;
      return;
    }
    work.run();
  }

 private:
  void serve() {
    emulated_cuda::current_device = device;
    std::unique_lock lock(mutex);
    for (;;) {
      more.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      {
        const emulated_cuda::Work work = std::move(queue.front());
        queue.pop_front();
        busy = true;
        lock.unlock();
        perform(work);
      }
      lock.lock();
      busy = false;
      if (queue.empty()) empty.notify_all();
    }
  }
};

namespace emulated_cuda {

// -- the process's state ------------------------------------------------------------------------------------------------------------------

struct Range {
  std::size_t bytes = 0;
  cudaMemoryType type = cudaMemoryTypeDevice;
  int device = 0;
  std::byte* mapped = nullptr;
  std::size_t mapped_bytes = 0;
};

struct Process {
  std::mutex mutex;
  std::map<std::uintptr_t, Range> ranges;  // by first byte
  std::map<int, std::size_t> used;         // bytes of a device
  std::set<cudaStream_t> streams;
  std::map<int, cudaStream_t> default_streams;
  std::map<const void*, std::size_t> shared_bytes;  // that a kernel may have
  std::set<std::pair<int, int>> peers;
};
/// Never destroyed: workers may outlive main.
inline Process& process() {
  static Process* const made = new Process;
  return *made;
}

inline std::atomic<int> global_captures{0};
inline thread_local int own_captures = 0;
inline thread_local std::vector<std::weak_ptr<CUgraph_st>> own_graphs;

/// Whether this thread may not wait for the device, because of a capture. It invalidates the capture, as a call that waits does.
inline bool in_capture() {
  if (global_captures.load() == 0 && own_captures == 0) return false;
  for (const auto& weak : own_graphs)
    if (const auto graph = weak.lock()) graph->valid = false;
  return true;
}

/// The stream, or the default stream of the current device for null.
inline cudaStream_t stream_of(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  cudaStream_t& made = p.default_streams[current_device];
  if (made == nullptr) {
    made = new CUstream_st(current_device);
    p.streams.insert(made);
  }
  return made;
}

/// Appends work to a stream, or to the graph that it captures.
inline void push(cudaStream_t stream, std::function<void()> run, Work::Kind kind = Work::data) {
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->work.push_back({std::move(run), kind});
    ++stream->capture->before[stream][stream];
  } else {
    stream->push({std::move(run), kind});
  }
}

/// The range that contains an address, and whether it contains all bytes from there.
struct Found {
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = 0;
  bool fits = true;
};
inline Found find(const void* pointer, std::size_t bytes) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = p.ranges.upper_bound(address);
  if (after == p.ranges.begin()) return {};
  const auto& [first, range] = *--after;
  if (address >= first + range.bytes) return {};
  return {range.type, range.device, address + bytes <= first + range.bytes};
}

/// Waits for all streams of a device.
inline void drain_device(int device) {
  std::vector<cudaStream_t> streams;
  {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    for (cudaStream_t stream : p.streams)
      if (stream->device == device) streams.push_back(stream);
  }
  for (cudaStream_t stream : streams) stream->drain();
}

}  // namespace emulated_cuda

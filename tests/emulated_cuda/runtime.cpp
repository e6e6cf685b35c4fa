#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulated_cuda/fibers.hpp"

namespace {

using Clock = std::chrono::steady_clock;

long long number_from(const char* name, long long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoll(text);
}

struct Settings {
  int devices = static_cast<int>(number_from("EMULATED_CUDA_DEVICES", 2));
  std::size_t memory = static_cast<std::size_t>(number_from("EMULATED_CUDA_MEMORY", 4LL << 30));
  long long delay_us = number_from("EMULATED_CUDA_DELAY_US", 0);
  long long fail_after = number_from("EMULATED_CUDA_FAIL_AFTER", 0);
};
const Settings& settings() {
  static const Settings* const read = new Settings;
  return *read;
}

// -- errors -------------------------------------------------------------------------------------------------------------------------------

std::atomic<int> broken{cudaSuccess};  // the permanent error that a launch caused
std::atomic<long long> launches{0};
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

cudaError_t done(cudaError_t status) {
  if (const int sticky = broken.load(); sticky != cudaSuccess) status = static_cast<cudaError_t>(sticky);
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}
bool is_broken() { return broken.load() != cudaSuccess; }

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

}  // namespace

using StreamClock = std::map<cudaStream_t, std::size_t>;  // by stream: the number of its pieces of work that precede something

struct CUgraph_st {
  std::vector<Work> work;
  std::map<cudaStream_t, StreamClock> before;  // during a capture: the work that precedes a stream's next piece of work
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool valid = true, ended = false;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<Work>> work;
  int device = 0;
};
struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<Point> point;          // of the last recording; null: none
  std::shared_ptr<CUgraph_st> captured;  // recorded in a capture
  StreamClock after;                     // the work that precedes it in the capture
};

// A queue with a thread of its own.
struct CUstream_st {
  int device = 0;
  std::mutex mutex;
  std::condition_variable more, empty;
  std::deque<Work> queue;
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
  void push(Work work) {
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
  static void perform(const Work& work) {
    if (work.kind == Work::order) {
      work.run();
      return;
    }
    if (is_broken()) return;
    if (settings().delay_us > 0) usleep(static_cast<useconds_t>(settings().delay_us));
    if (work.kind == Work::launch && ++launches == settings().fail_after) {
      broken = cudaErrorLaunchFailure;
      return;
    }
    work.run();
  }

 private:
  void serve() {
    current_device = device;
    std::unique_lock lock(mutex);
    for (;;) {
      more.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      {
        const Work work = std::move(queue.front());
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

namespace {

// -- the process's state: never destroyed, workers may outlive main
// -------------------------------------------------------------------------

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
Process& process() {
  static Process* const made = new Process;
  return *made;
}

std::atomic<int> global_captures{0};
thread_local int own_captures = 0;
thread_local std::vector<std::weak_ptr<CUgraph_st>> own_graphs;

/// Calls that are not allowed during a capture, since they wait for the device, or might.
bool in_capture() {
  if (global_captures.load() == 0 && own_captures == 0) return false;
  for (const auto& weak : own_graphs)
    if (const auto graph = weak.lock()) graph->valid = false;
  return true;
}

cudaStream_t stream_of(cudaStream_t stream) {
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

void push(cudaStream_t stream, std::function<void()> run, Work::Kind kind = Work::data) {
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->work.push_back({std::move(run), kind});
    ++stream->capture->before[stream][stream];
  } else {
    stream->push({std::move(run), kind});
  }
}

/// The range that contains an address; with `fits` it must contain all of the bytes from there.
struct Found {
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = 0;
  bool fits = true;
};
Found find(const void* pointer, std::size_t bytes) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = p.ranges.upper_bound(address);
  if (after == p.ranges.begin()) return {};
  const auto& [first, range] = *--after;
  if (address >= first + range.bytes) return {};
  return {range.type, range.device, address + bytes <= first + range.bytes};
}

std::size_t pages(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return (bytes + page - 1) / page * page;
}

void drain_device(int device) {
  std::vector<cudaStream_t> streams;
  {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    for (cudaStream_t stream : p.streams)
      if (stream->device == device) streams.push_back(stream);
  }
  for (cudaStream_t stream : streams) stream->drain();
}

/// Maps `bytes` at a multiple of 512, followed directly by a page without access.
cudaError_t map_memory(void** memory, std::size_t bytes, cudaMemoryType type) {
  constexpr std::size_t guard = 4096, line = 512;
  const std::size_t wanted = type == cudaMemoryTypeDevice ? (bytes + line - 1) / line * line : pages(bytes);
  const std::size_t mapped_bytes = pages(wanted) + guard;
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* const base = static_cast<std::byte*>(mapped);
  mprotect(base + mapped_bytes - guard, guard, PROT_NONE);
  *memory = base + mapped_bytes - guard - wanted;
  // Fills new memory with a pattern that reveals reads of unwritten bytes, if the memory is small.
  if (bytes <= std::size_t{64} << 20) std::memset(*memory, 0xCB, wanted);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.ranges[reinterpret_cast<std::uintptr_t>(*memory)] = {wanted, type, current_device, base, mapped_bytes};
  return cudaSuccess;
}

cudaError_t unmap_memory(void* memory, cudaMemoryType type) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = p.ranges.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == p.ranges.end() || found->second.type != type || found->second.mapped == nullptr) return cudaErrorInvalidValue;
  munmap(found->second.mapped, found->second.mapped_bytes);
  if (type == cudaMemoryTypeDevice) p.used[found->second.device] -= found->second.bytes;
  p.ranges.erase(found);
  return cudaSuccess;
}

/// Zeroes memory; whole pages are returned to the system instead.
void fill(void* to, int value, std::size_t bytes) {
  constexpr std::size_t page = 4096, worth = std::size_t{4} << 20;
  auto* at = static_cast<std::byte*>(to);
  if (value == 0 && bytes >= worth && find(to, bytes).type == cudaMemoryTypeDevice) {
    const std::size_t head = (page - reinterpret_cast<std::uintptr_t>(at) % page) % page, whole = (bytes - head) / page * page;
    std::memset(at, 0, head);
    madvise(at + head, whole, MADV_DONTNEED);
    at += head + whole;
    bytes -= head + whole;
  }
  std::memset(at, value, bytes);
}

cudaError_t copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width) return cudaErrorInvalidValue;
  const Found target = find(to, (height - 1) * to_pitch + width), source = find(from, (height - 1) * from_pitch + width);
  if (!target.fits || !source.fits) return cudaErrorInvalidValue;
  // Pinned memory belongs to host and device, as under unified addressing; ordinary memory belongs only to the host, device memory
  // only to the device.
  const auto suits = [&](const Found& what, bool device) {
    return kind == cudaMemcpyDefault || what.type == cudaMemoryTypeHost || (what.type == cudaMemoryTypeDevice) == device;
  };
  if (!suits(target, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) ||
      !suits(source, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice))
    return cudaErrorInvalidValue;
  const bool from_pageable = source.type == cudaMemoryTypeUnregistered, to_pageable = target.type == cudaMemoryTypeUnregistered;
  if ((from_pageable || to_pageable) && stream_of(stream)->capture != nullptr) {
    stream_of(stream)->capture->valid = false;
    return cudaErrorStreamCaptureUnsupported;
  }
  const auto rows = [=](void* out, const void* in, std::size_t in_pitch) {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<std::byte*>(out) + row * to_pitch, static_cast<const std::byte*>(in) + row * in_pitch, width);
  };
  if (from_pageable) {  // copies the bytes now, since the source may change
    auto staged = std::make_shared<std::vector<std::byte>>(width * height);
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(staged->data() + row * width, static_cast<const std::byte*>(from) + row * from_pitch, width);
    push(stream, [=] { rows(to, staged->data(), width); });
  } else {
    push(stream, [=] { rows(to, from, from_pitch); });
  }
  if (to_pageable) stream_of(stream)->drain();
  return cudaSuccess;
}

}  // namespace

// -- errors and devices -------------------------------------------------------------------------------------------------------------------

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define MILLRACE_NAME(name) \
  case name:                \
    return #name
    MILLRACE_NAME(cudaSuccess);
    MILLRACE_NAME(cudaErrorInvalidValue);
    MILLRACE_NAME(cudaErrorMemoryAllocation);
    MILLRACE_NAME(cudaErrorInvalidConfiguration);
    MILLRACE_NAME(cudaErrorInvalidMemcpyDirection);
    MILLRACE_NAME(cudaErrorNoDevice);
    MILLRACE_NAME(cudaErrorInvalidDevice);
    MILLRACE_NAME(cudaErrorInvalidResourceHandle);
    MILLRACE_NAME(cudaErrorIllegalState);
    MILLRACE_NAME(cudaErrorNotReady);
    MILLRACE_NAME(cudaErrorPeerAccessAlreadyEnabled);
    MILLRACE_NAME(cudaErrorHostMemoryAlreadyRegistered);
    MILLRACE_NAME(cudaErrorHostMemoryNotRegistered);
    MILLRACE_NAME(cudaErrorLaunchFailure);
    MILLRACE_NAME(cudaErrorNotSupported);
    MILLRACE_NAME(cudaErrorStreamCaptureUnsupported);
    MILLRACE_NAME(cudaErrorStreamCaptureInvalidated);
    MILLRACE_NAME(cudaErrorStreamCaptureUnjoined);
    MILLRACE_NAME(cudaErrorStreamCaptureIsolation);
    MILLRACE_NAME(cudaErrorCapturedEvent);
    MILLRACE_NAME(cudaErrorStreamCaptureWrongThread);
    MILLRACE_NAME(cudaErrorUnknown);
#undef MILLRACE_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return cudaGetErrorName(error);
  }
}

cudaError_t cudaPeekAtLastError() { return is_broken() ? done(cudaSuccess) : last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t found = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return found;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;  // needs no context, so it works in a broken process as well
  if (*count > 0) return cudaSuccess;
  last_error = cudaErrorNoDevice;
  return cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= settings().devices) return done(cudaErrorInvalidDevice);
  current_device = device;
  return done(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return done(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= settings().devices) return done(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated");
  properties->totalGlobalMem = settings().memory;
  properties->sharedMemPerBlock = 48U << 10;
  properties->sharedMemPerBlockOptin = 227U << 10;
  properties->sharedMemPerMultiprocessor = 228U << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->l2CacheSize = 1 << 20;
  properties->unifiedAddressing = properties->canMapHostMemory = properties->concurrentKernels = 1;
  properties->asyncEngineCount = 2;
  properties->pciBusID = device;
  return done(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
  }
  return done(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return done(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  drain_device(current_device);
  return done(cudaSuccess);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (std::min(device, peer) < 0 || std::max(device, peer) >= settings().devices) return done(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return done(cudaSuccess);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (peer < 0 || peer >= settings().devices || peer == current_device) return done(cudaErrorInvalidDevice);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return done(p.peers.emplace(current_device, peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return done(cudaSuccess);
}

// -- memory -------------------------------------------------------------------------------------------------------------------------------

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  *total = settings().memory;
  *free = *total - std::min(*total, p.used[current_device]);
  return done(cudaSuccess);
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = nullptr;
  if (is_broken() || bytes == 0) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  const std::size_t counted = (bytes + 511) / 512 * 512;
  {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    std::size_t& used = p.used[current_device];
    if (counted < bytes || counted > settings().memory - std::min(settings().memory, used)) return done(cudaErrorMemoryAllocation);
    used += counted;
  }
  const cudaError_t status = map_memory(memory, bytes, cudaMemoryTypeDevice);
  if (status != cudaSuccess) {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    p.used[current_device] -= counted;
  }
  return done(status);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return done(cudaSuccess);
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  const Found found = find(memory, 1);
  if (found.type == cudaMemoryTypeDevice) drain_device(found.device);
  return done(unmap_memory(memory, cudaMemoryTypeDevice));
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = nullptr;
  if (is_broken() || bytes == 0) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  return done(map_memory(memory, bytes, cudaMemoryTypeHost));
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes, unsigned flags) { return cudaHostAlloc(memory, bytes, flags); }
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return done(cudaSuccess);
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  for (int device = 0; device < settings().devices; ++device) drain_device(device);
  return done(unmap_memory(memory, cudaMemoryTypeHost));
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  if (memory == nullptr || bytes == 0) return done(cudaErrorInvalidValue);
  if (find(memory, bytes).type != cudaMemoryTypeUnregistered) return done(cudaErrorHostMemoryAlreadyRegistered);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.ranges[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, cudaMemoryTypeHost, current_device, nullptr, 0};
  return done(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* memory) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  const auto found = p.ranges.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == p.ranges.end() || found->second.type != cudaMemoryTypeHost || found->second.mapped != nullptr)
    return done(cudaErrorHostMemoryNotRegistered);
  p.ranges.erase(found);
  return done(cudaSuccess);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (find(host, 1).type != cudaMemoryTypeHost) return done(cudaErrorInvalidValue);
  *device = host;
  return done(cudaSuccess);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Found found = find(pointer, 1);
  void* const address = const_cast<void*>(pointer);
  *attributes = {found.type, found.type == cudaMemoryTypeUnregistered ? -2 : found.device,
                 found.type == cudaMemoryTypeUnregistered ? nullptr : address, found.type == cudaMemoryTypeDevice ? nullptr : address};
  return done(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (is_broken()) return done(cudaSuccess);
  return done(copy(to, bytes, from, bytes, bytes, 1, kind, stream));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (is_broken()) return done(cudaSuccess);
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  const cudaError_t status = copy(to, bytes, from, bytes, bytes, 1, kind, nullptr);
  stream_of(nullptr)->drain();
  return done(status);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (is_broken()) return done(cudaSuccess);
  return done(copy(to, to_pitch, from, from_pitch, width, height, kind, stream));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes, cudaStream_t stream) {
  if (is_broken()) return done(cudaSuccess);
  const Found target = find(to, bytes), source = find(from, bytes);
  if (target.type != cudaMemoryTypeDevice || source.type != cudaMemoryTypeDevice || target.device != to_device ||
      source.device != from_device)
    return done(cudaErrorInvalidValue);
  return done(copy(to, bytes, from, bytes, bytes, 1, cudaMemcpyDeviceToDevice, stream));
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (is_broken() || bytes == 0) return done(cudaSuccess);
  const Found target = find(to, bytes);
  if (target.type == cudaMemoryTypeUnregistered || !target.fits) return done(cudaErrorInvalidValue);
  push(stream, [=] { fill(to, value, bytes); });
  return done(cudaSuccess);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

// -- streams and events -------------------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  if (is_broken()) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  *stream = new CUstream_st(current_device);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.streams.insert(*stream);
  return done(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Process& p = process();
  {
    const std::lock_guard lock(p.mutex);
    if (p.streams.erase(stream) == 0) return done(cudaErrorInvalidResourceHandle);
  }
  delete stream;  // queued work is completed first
  return done(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorStreamCaptureUnsupported);
  }
  stream->drain();
  return done(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  return done(stream_of(stream)->idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = nullptr;
  if (is_broken()) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  *event = new CUevent_st;
  (*event)->device = current_device;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return done(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  delete event;
  return done(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream = stream_of(stream);
  if (event == nullptr || event->device != stream->device) return done(cudaErrorInvalidResourceHandle);
  auto point = std::make_shared<Point>();
  {
    const std::lock_guard lock(event->mutex);
    event->point = point;
    event->captured = stream->capture;
    event->after = stream->capture != nullptr ? stream->capture->before[stream] : StreamClock{};
  }
  // In a graph, work runs in the order in which it was captured, so nothing remains to be done.
  if (stream->capture == nullptr) stream->push({[point] { point->reach(); }, Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream = stream_of(stream);
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Point> point;
  std::shared_ptr<CUgraph_st> captured;
  StreamClock after;
  {
    const std::lock_guard lock(event->mutex);
    point = event->point;
    captured = event->captured;
    after = event->after;
  }
  if (captured != nullptr) {
    if (captured->ended) return done(cudaErrorCapturedEvent);
    if (stream->capture == nullptr) stream->capture = captured;  // joins it
    if (stream->capture != captured) return done(cudaErrorStreamCaptureIsolation);
    for (const auto& [other, count] : after) captured->before[stream][other] = std::max(captured->before[stream][other], count);
    return done(cudaSuccess);
  }
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorStreamCaptureIsolation);
  }
  if (point != nullptr) stream->push({[point] { point->wait(); }, Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  if (event->captured != nullptr) return done(cudaErrorCapturedEvent);
  return done(event->point == nullptr || event->point->is_complete() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Point> point;
  {
    const std::lock_guard lock(event->mutex);
    if (event->captured != nullptr) return done(cudaErrorCapturedEvent);
    point = event->point;
  }
  if (point != nullptr) point->wait();
  return done(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from == nullptr || to == nullptr || !from->timed || !to->timed || from->point == nullptr || to->point == nullptr)
    return done(cudaErrorInvalidResourceHandle);
  if (!from->point->is_complete() || !to->point->is_complete()) return done(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->point->when - from->point->when).count();
  return done(cudaSuccess);
}

// -- graphs -------------------------------------------------------------------------------------------------------------------------------
// A capture is a single list over all streams that join it, in the order of the calls, which satisfies every dependency.

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_broken()) return done(cudaSuccess);
  if (stream == nullptr) return done(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return done(cudaErrorIllegalState);
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->origin = true;
  if (mode == cudaStreamCaptureModeGlobal) ++global_captures;
  if (mode == cudaStreamCaptureModeThreadLocal) ++own_captures;
  if (mode != cudaStreamCaptureModeRelaxed) own_graphs.emplace_back(stream->capture);
  return done(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr || !stream->origin) return done(cudaErrorIllegalState);
  const auto captured = stream->capture;
  if (captured->mode != cudaStreamCaptureModeRelaxed && captured->thread != std::this_thread::get_id())
    return done(cudaErrorStreamCaptureWrongThread);
  {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    for (cudaStream_t other : p.streams)
      if (other->capture == captured) other->capture = nullptr;
  }
  stream->origin = false;
  if (captured->mode == cudaStreamCaptureModeGlobal) --global_captures;
  if (captured->mode == cudaStreamCaptureModeThreadLocal) --own_captures;
  std::erase_if(own_graphs, [&](const auto& weak) { return weak.expired() || weak.lock() == captured; });
  captured->ended = true;
  if (!captured->valid) return done(cudaErrorStreamCaptureInvalidated);
  StreamClock& joined = captured->before[stream];
  for (auto& [other, clock] : captured->before)
    if (clock[other] > joined[other]) return done(cudaErrorStreamCaptureUnjoined);
  if (is_broken()) return done(cudaSuccess);
  *graph = new CUgraph_st;
  (*graph)->work = captured->work;
  return done(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream == nullptr || stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->valid                        ? cudaStreamCaptureStatusActive
                                                            : cudaStreamCaptureStatusInvalidated;
  return done(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = nullptr;
  if (graph == nullptr) return done(cudaErrorInvalidValue);
  if (is_broken()) return done(cudaSuccess);
  *made = new CUgraphExec_st{std::make_shared<const std::vector<Work>>(graph->work), current_device};
  return done(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t) { return done(graph == nullptr ? cudaErrorInvalidValue : cudaSuccess); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (is_broken()) return done(cudaSuccess);
  if (graph == nullptr) return done(cudaErrorInvalidValue);
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorNotSupported);
  }
  const auto work = graph->work;
  stream->push({[work] {
                  for (const Work& one : *work) CUstream_st::perform(one);
                },
                Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return done(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return done(cudaSuccess);
}

// -- kernels ------------------------------------------------------------------------------------------------------------------------------

namespace emulated_cuda {

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body) {
  if (is_broken()) return done(cudaSuccess);
  const dim3 grid = config.gridDim, block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647U ||
      grid.y > 65535 || grid.z > 65535)
    return done(cudaErrorInvalidConfiguration);
  const cudaStream_t stream = stream_of(config.stream);
  if (stream->device != current_device) return done(cudaErrorInvalidResourceHandle);
  if (config.dynamicSmemBytes > 48U << 10) {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    const auto allowed = p.shared_bytes.find(kernel);
    if (allowed == p.shared_bytes.end() || allowed->second < config.dynamicSmemBytes) return done(cudaErrorInvalidValue);
  }
  push(
      stream, [grid, block, bytes = config.dynamicSmemBytes, run = std::move(body)] { run_grid(grid, block, bytes, run); }, Work::launch);
  return done(cudaSuccess);
}

cudaError_t allow_shared_bytes(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return done(cudaSuccess);
  if (value < 0 || value > 227 << 10) return done(cudaErrorInvalidValue);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.shared_bytes[kernel] = static_cast<std::size_t>(value);
  return done(cudaSuccess);
}

cudaError_t blocks_at_a_time(int* blocks, int threads, std::size_t shared_bytes) {
  *blocks = std::min(2048 / std::max(threads, 1), static_cast<int>((228U << 10) / (shared_bytes + 1024)));
  return done(cudaSuccess);
}

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  if (is_broken()) return done(cudaSuccess);
  if (stream_of(stream)->device != current_device) return done(cudaErrorInvalidResourceHandle);
  push(stream, std::move(work), Work::launch);
  return done(cudaSuccess);
}

}  // namespace emulated_cuda

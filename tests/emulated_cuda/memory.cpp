// Memory and copies.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/emulated_cuda/process.hpp"

using namespace emulated_cuda;

namespace {

std::size_t pages(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return (bytes + page - 1) / page * page;
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

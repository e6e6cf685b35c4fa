// Errors and devices.

#include <algorithm>
#include <cstdio>

#include "tests/emulated_cuda/process.hpp"

using namespace emulated_cuda;

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

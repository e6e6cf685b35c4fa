#include "benchmarks/pipeline/hammer.hpp"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::benchmarks {
namespace {

/// Sends one request and reads the whole response; returns whether there was one.
bool ask(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool answered = false;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    constexpr std::string_view request = "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    static_cast<void>(send(descriptor, request.data(), request.size(), MSG_NOSIGNAL));
    std::array<char, 65536> buffer;
    while (recv(descriptor, buffer.data(), buffer.size(), 0) > 0) answered = true;
  }
  close(descriptor);
  return answered;
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(0);
}

}  // namespace

struct Hammer::Shared {
  std::atomic<int> port{0};
  std::atomic<std::int64_t> answers{0};
  std::atomic<double> cpu_seconds{0};
};

Hammer::Hammer(int connections) : connections_(connections) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MILLRACE_CHECK(memory != MAP_FAILED, ExitCode::memory, "benchmark", "no shared page");
  shared_ = new (memory) Shared;
  pid_ = fork();
  if (pid_ != 0) return;
  end_with_parent();
  std::vector<std::thread> threads;
  for (int i = 0; i < connections_; ++i) {
    threads.emplace_back([shared = shared_] {
      while (true) {
        const int port = shared->port.load();
        if (port == 0) {
          usleep(50'000);  // rarely, since wake-ups cost the run time too
        } else if (ask(port)) {
          ++shared->answers;
        }
      }
    });
  }
  while (true) {
    usleep(20'000);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
    shared_->cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
}

Hammer::~Hammer() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  munmap(shared_, sizeof(Shared));
}

void Hammer::strike(int port) { shared_->port = port; }
std::int64_t Hammer::answers() const { return shared_->answers; }
double Hammer::cpu_seconds() const { return shared_->cpu_seconds; }

}  // namespace millrace::benchmarks

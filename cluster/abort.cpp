#include "cluster/abort.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace millrace::cluster {
namespace {

constexpr auto hook_limit = std::chrono::milliseconds(400);

struct Hooks {
  std::mutex mutex;
  std::vector<std::function<void()>> list;
};

Hooks& hooks() {
  static auto* const all = new Hooks;  // never destroyed: abort_job may run while main() returns
  return *all;
}

std::atomic<bool> leaving{false};
std::atomic<const std::string*> first_message{nullptr};

void write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void run_hooks() {
  const std::unique_lock lock(hooks().mutex, std::try_to_lock);
  if (!lock) return;
  for (const auto& hook : hooks().list) {
    try {
      hook();
    } catch (...) {  // the first error is already told
    }
  }
}

}  // namespace

void add_abort_hook(std::function<void()> hook) {
  const std::lock_guard lock(hooks().mutex);
  hooks().list.push_back(std::move(hook));
}

std::string_view abort_message() {
  const std::string* message = first_message.load(std::memory_order_acquire);
  return message == nullptr ? std::string_view{} : std::string_view(*message);
}

void abort_job(ExitCode code, std::string_view message, bool speak) {
  if (leaving.exchange(true)) {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const auto* text = new std::string(message);  // lives until _exit
  first_message.store(text, std::memory_order_release);
  if (speak) write_all(*text + "\n");
  // Hooks may hang on a lock of a thread that is stuck; the process must leave all the same.
  std::thread([code] {
    std::this_thread::sleep_for(hook_limit);
    _exit(static_cast<int>(code));
  }).detach();
  run_hooks();
  _exit(static_cast<int>(code));
}

}  // namespace millrace::cluster

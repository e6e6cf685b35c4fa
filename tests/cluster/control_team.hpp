#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/control/control_link.hpp"

namespace millrace::cluster {

/// Waits for `condition` to hold under the lock; false after `limit`.
inline constexpr auto long_enough = std::chrono::seconds(20);

/// What one control link reported.
class Diary {
 public:
  struct Message {
    int process;
    std::uint16_t type;
    std::string text;
  };

  ControlHandlers handlers(int rank) {
    ControlHandlers out;
    out.on_message = [this](int process, std::uint16_t type, std::span<const std::byte> bytes) {
      std::this_thread::sleep_for(hold);
      note([&] { messages.push_back({process, type, std::string(text_of(bytes))}); });
    };
    out.progress = [rank](std::span<Progress> records) {
      records[0] = {rank, 7, 5, 0, 17, {}};
      records[0].set_action("forward");
      return std::size_t{1};
    };
    out.on_lost = [this](const PeerFailure& loss) { note([&] { losses.push_back(loss); }); };
    out.on_job_lost = [this](const std::vector<PeerFailure>& all, double seconds, bool prints) {
      note([&] {
        job_losses = all;
        slept = seconds;
        speak = prints;
        ++ends;
      });
    };
    out.on_failure = [this](ExitCode code, const std::string& text, bool prints) {
      note([&] {
        failure_code = code;
        failure_text = text;
        speak = prints;
        ++ends;
      });
    };
    return out;
  }

  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, long_enough, condition);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Message> messages;
  std::vector<PeerFailure> losses, job_losses;
  ExitCode failure_code = ExitCode::ok;
  std::string failure_text;
  double slept = 0;
  std::chrono::milliseconds hold{0};  // for which a message stops the control thread
  bool speak = false;
  int ends = 0;

 private:
  template <class Change>
  void note(Change change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
};

/// The control links of a job, all in this process. The test may play other processes: `real` says which processes have links.
class Team {
 public:
  Team(int processes, std::vector<int> real, ClusterConfig config = {})
      : listener(config, true), diaries(static_cast<std::size_t>(processes)) {
    rendezvous = listener.rendezvous();
    links.resize(static_cast<std::size_t>(processes));
    for (const int process : real) {
      joining.emplace_back([this, process, processes, config] {
        const auto index = static_cast<std::size_t>(process);
        links[index] = std::make_unique<ControlLink>(config, Topology(processes, processes, process), rendezvous,
                                                     process == 0 ? &listener : nullptr, diaries[index].handlers(process));
      });
    }
  }
  /// Returns when the real processes have joined.
  void joined() {
    for (std::thread& thread : joining) thread.join();
    joining.clear();
  }
  /// Calls action(process) for all links concurrently.
  template <class Action>
  void together(Action action) {
    std::vector<std::thread> threads;
    for (std::size_t process = 0; process < links.size(); ++process) {
      if (links[process]) threads.emplace_back([&, process] { action(process); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Listener listener;
  Rendezvous rendezvous;
  std::vector<Diary> diaries;
  std::vector<std::unique_ptr<ControlLink>> links;
  std::vector<std::thread> joining;
};

/// A process that the test plays by hand, after the handshake.
class FakePeer {
 public:
  FakePeer(const Rendezvous& rendezvous, int process, const ClusterConfig& config = {})
      : process_(process), connection_(connect_to(rendezvous, process, config)), mac_(connection_.connector_key) {}
  ~FakePeer() { hang_up(); }
  FakePeer(const FakePeer&) = delete;

  void send(FrameKind kind, std::span<const std::byte> payload, bool spoil = false) {
    std::vector<std::byte> frame;
    append_frame(frame, {.kind = static_cast<std::uint16_t>(kind), .from = static_cast<std::uint16_t>(process_), .sequence = sent_++},
                 payload, &mac_);
    if (spoil) frame.back() ^= std::byte{1};
    write(frame);
  }
  void write(std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent = ::send(connection_.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void hang_up() {
    if (connection_.descriptor >= 0) ::close(connection_.descriptor);
    connection_.descriptor = -1;
  }

 private:
  int process_;
  Connection connection_;
  Hmac mac_;
  std::uint64_t sent_ = 0;
};

}  // namespace millrace::cluster

// Parses the messages of a file with QuickFIX C++ (Debian's libquickfix-dev), all of them once for each line of its standard input, and
// prints how many nanoseconds that took. `peers fix` builds and runs it.
//
// usage: parse FILE ROUNDS: ROUNDS passes come before it says `ready`
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <quickfix/Message.h>

static long long parse(const std::vector<std::string> &messages) {
    auto began = std::chrono::steady_clock::now();
    for (const std::string &text : messages) {
        FIX::Message message;
        // true: BodyLength and CheckSum are compared
        message.setString(text, true);
    }
    auto took = std::chrono::steady_clock::now() - began;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
}

int main(int count, char **arguments) {
    if (count != 3) {
        std::cout << "usage: parse FILE ROUNDS" << std::endl;
        return 2;
    }
    std::ifstream file(arguments[1], std::ios::binary);
    std::vector<std::string> messages;
    for (std::string line; std::getline(file, line);) messages.push_back(line);
    try {
        for (int rounds = std::atoi(arguments[2]); rounds > 0; rounds--) parse(messages);
        std::cout << "ready" << std::endl;
        for (std::string told; std::getline(std::cin, told);) std::cout << parse(messages) << std::endl;
    } catch (const std::exception &error) {
        std::cout << error.what() << std::endl;
        return 2;
    }
    return 0;
}

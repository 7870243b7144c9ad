/* A first program: two clients, and ten messages from one to the other. */
#include <iostream>

#include <pinnace/client.hpp>

int main() {
    const int messages = 10;
    pinnace::Client client1(pinnace::Options("client1", "topic_client1"));
    pinnace::Client client2(pinnace::Options("client2", "topic_client2"));

    int received = 0;
    client2.listen([&received](pinnace::Delivery &delivery) {
        std::cout << "receive_from " << delivery.from() << std::endl;
        received++;
    });
    const std::string array(100, '\0');
    for (int at = 0; at < messages; at++) {
        client1.send_to("topic_client2", array);
        std::cout << "send_to client2" << std::endl;
    }
    client1.wait_pending();
    client2.close();
    std::cout << "result messages=" << received << " expected=" << messages << std::endl;
}

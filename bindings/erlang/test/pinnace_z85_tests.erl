%% Z85, with the examples of RFC 32.
-module(pinnace_z85_tests).

-include_lib("eunit/include/eunit.hrl").

examples_test() ->
    Hello = <<16#86, 16#4F, 16#D2, 16#6F, 16#B5, 16#59, 16#F7, 16#5B>>,
    ?assertEqual({ok, <<"HelloWorld">>}, pinnace_z85:encode(Hello)),
    ?assertEqual({ok, Hello}, pinnace_z85:decode(<<"HelloWorld">>)),
    Key = <<16#8E0BDD697628B91D:64, 16#8F245587EE95C5B0:64, 16#4D48963F79259877:64, 16#B49CD9063AEAD3B7:64>>,
    ?assertEqual({ok, <<"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6">>}, pinnace_z85:encode(Key)),
    ?assertEqual({ok, Key}, pinnace_z85:decode("JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6")).

there_and_back_test() ->
    [begin
        Octets = rand:bytes(4 * Size),
        {ok, Text} = pinnace_z85:encode(Octets),
        ?assertEqual(5 * Size, byte_size(Text)),
        ?assertEqual({ok, Octets}, pinnace_z85:decode(Text))
     end || Size <- lists:seq(0, 50)],
    [?assertEqual({ok, Octets}, pinnace_z85:decode(element(2, pinnace_z85:encode(Octets))))
     || Octets <- [<<0:32>>, <<16#FFFFFFFF:32>>, <<1:32>>]].

wrong_texts_test() ->
    [?assertEqual({error, einval}, pinnace_z85:encode(Octets)) || Octets <- [<<1>>, <<1:24>>, <<1:40>>]],
    %% A wrong length, characters that Z85 has not, and numbers of more than 32 bits.
    [?assertEqual({error, einval}, pinnace_z85:decode(Text))
     || Text <- ["1", "1234", "123456", "1234 ", "1234\"", "1234,", [1, 2, 3, 4, 5], "#####", "%nSc1",
                 <<"1234", 200>>]],
    %% The greatest number.
    ?assertEqual({ok, <<16#FFFFFFFF:32>>}, pinnace_z85:decode("%nSc0")).

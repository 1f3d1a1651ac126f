CREATE TABLE worker (id text PRIMARY KEY, url text NOT NULL, seen bigint NOT NULL);
